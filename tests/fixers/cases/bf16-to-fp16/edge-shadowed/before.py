import torch


def f(torch):
    return torch.bfloat16


def g():
    return torch.bfloat16
