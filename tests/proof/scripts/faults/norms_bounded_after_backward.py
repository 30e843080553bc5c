"""The loop reduces the norm of each scaled gradient to 1 before the scaler divides the gradients.

A second script for the same check.

expects: clip-before-unscale (error)
"""

import mini
import torch
from torch import nn

torch.manual_seed(7)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = mini.scaler()
for _ in range(30):
    with mini.autocast():
        loss = nn.functional.cross_entropy(model(torch.randn(8, 16)).float(), torch.randint(0, 10, (8,)))
    scaler.scale(loss).backward()
    for parameter in model.parameters():
        parameter.grad.mul_(1 / parameter.grad.norm().clamp(min=1))
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
