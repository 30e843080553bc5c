"""All of the model is frozen; only a soft prompt before its input is trained."""

import torch
from torch import nn

torch.manual_seed(7)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)).requires_grad_(False)
prompt = torch.zeros(16, requires_grad=True)
optimizer = torch.optim.AdamW([prompt], lr=1e-2)
for _ in range(30):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 16) + prompt), torch.randint(0, 4, (8,)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
