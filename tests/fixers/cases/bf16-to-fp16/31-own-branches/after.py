import torch


def dtype_of(word):
    if word == "bf16":
        return torch.bfloat16
    elif word == "fp16":
        return torch.float16
    return torch.float32
