def train(bf16=False, fp16=False):
    pass

train(fp16=True)
