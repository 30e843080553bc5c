"""The batch is the same in every step, and updates are smaller than the resolution of every weight.

expects: loss-constant, adapter-moves
"""

import torch
from torch import nn

torch.manual_seed(7)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-30)
given, labels = torch.randn(8, 16), torch.randint(0, 4, (8,))
for _ in range(30):
    nn.functional.cross_entropy(model(given), labels).backward()
    optimizer.step()
    optimizer.zero_grad()
