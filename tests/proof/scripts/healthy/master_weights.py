"""A float16 model with float32 master weights; the loss is multiplied and gradients are divided by hand."""

import torch
from torch import nn

SCALE = 512.0

torch.manual_seed(7)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10)).half()
masters = [parameter.detach().clone().float().requires_grad_() for parameter in model.parameters()]
optimizer = torch.optim.AdamW(masters, lr=1e-3)
for _ in range(30):
    scores = model(torch.randn(8, 16).half()).float()
    loss = nn.functional.cross_entropy(scores, torch.randint(0, 10, (8,)))
    model.zero_grad()
    (loss * SCALE).backward()
    for parameter, master in zip(model.parameters(), masters, strict=True):
        master.grad = parameter.grad.float() / SCALE
    nn.utils.clip_grad_norm_(masters, 1.0)
    optimizer.step()
    with torch.no_grad():
        for parameter, master in zip(model.parameters(), masters, strict=True):
            parameter.copy_(master)
