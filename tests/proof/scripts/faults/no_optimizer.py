"""The script updates weights without an optimizer, so the proof sees no optimizer step.

expects: proof-blind
"""

import torch
from torch import nn

model = nn.Linear(16, 4)
for _ in range(30):
    model(torch.randn(8, 16)).pow(2).mean().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(parameter.grad, alpha=1e-3)
            parameter.grad = None
