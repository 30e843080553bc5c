def train(bf16=False):
    pass

train(bf16=True)
