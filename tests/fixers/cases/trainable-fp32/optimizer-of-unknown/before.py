import torch


def make(params):
    return torch.optim.AdamW(params, dtype=torch.float16)
