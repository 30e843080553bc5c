import torch


def make():
    return torch.amp.GradScaler("cuda")


def step(model, dtype):
    with torch.autocast("cuda", dtype=dtype):
        return model()
