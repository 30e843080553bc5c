import torch


def dtype_of(word):
    if word == "bf16":
        return torch.bfloat16
    return torch.float32
