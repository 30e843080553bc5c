"""The squares of the gradients overflow: their norm is infinite, and clipping by it sets every gradient to 0.

expects: gradient-clipping
"""

import torch
from torch import nn

torch.manual_seed(7)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(30):
    (model(torch.randn(8, 16)).pow(2).mean() * 1e25).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
