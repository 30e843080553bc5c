from torch import bfloat16, float16

def load(model, dtype=float16):
    if dtype == bfloat16:
        print("half")
    return model
