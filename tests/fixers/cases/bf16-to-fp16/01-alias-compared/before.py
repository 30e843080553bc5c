from torch import bfloat16

def load(model, dtype=bfloat16):
    if dtype == bfloat16:
        print("half")
    return model
