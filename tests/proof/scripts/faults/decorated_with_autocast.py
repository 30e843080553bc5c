"""The function that trains is decorated with autocast, in bfloat16.

A second script for the same check.

expects: autocast-cache (error)
"""

import torch
from torch import nn

torch.manual_seed(7)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


@torch.autocast("cpu", torch.bfloat16)
def train():
    for _ in range(30):
        loss = nn.functional.cross_entropy(model(torch.randn(8, 16)).float(), torch.randint(0, 10, (8,)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


train()
