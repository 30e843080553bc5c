import torch
from torch.optim import AdamW


def train(model, loader):
    model.to(torch.float16)
    params = [p for p in model.parameters() if p.requires_grad]
    # the optimizer
    optimizer = AdamW(params, lr=2e-5)
