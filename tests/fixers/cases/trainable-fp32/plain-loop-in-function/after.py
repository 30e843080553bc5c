import torch
from torch.optim import AdamW


def train(model, loader):
    model.to(torch.float16)
    params = [p for p in model.parameters() if p.requires_grad]
    # the optimizer
    for parameter in model.parameters():  # a loss scaler refuses float16 gradients
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    optimizer = AdamW(params, lr=2e-5)
