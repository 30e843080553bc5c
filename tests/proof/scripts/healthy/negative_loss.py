"""The loss is a sum of negative log densities; it is far below 0, because the densities exceed 1."""

import torch
from torch import nn

torch.manual_seed(7)
model = nn.Linear(8, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(30):
    mean, spread = model(torch.randn(64, 8)).unbind(-1)
    density = torch.distributions.Normal(mean * 1e-3, torch.sigmoid(spread) * 1e-2)
    loss = -density.log_prob(torch.randn(64) * 1e-3).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
