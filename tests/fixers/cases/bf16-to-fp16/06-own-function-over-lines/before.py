def train(bf16=False):
    pass

x = 1
train(
    bf16=True,
)
