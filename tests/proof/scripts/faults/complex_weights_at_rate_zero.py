"""The weights are complex, and the learning rate is 0 without a schedule that would raise it.

expects: learning-rate, proof-short
"""

import torch
from torch import nn

model = nn.Linear(8, 2, dtype=torch.complex64)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
for _ in range(30):
    model(torch.randn(4, 8, dtype=torch.complex64)).abs().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
