"""The optimizer updates float32 copies of float16 weights, but nothing copies the result back to the model.

expects: trainable-dtype, optimizer-parameters
"""

import torch
from torch import nn

torch.manual_seed(7)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10)).half()
masters = [parameter.detach().clone().float().requires_grad_() for parameter in model.parameters()]
optimizer = torch.optim.AdamW(masters, lr=1e-3)
for _ in range(30):
    scores = model(torch.randn(8, 16).half()).float()
    loss = nn.functional.cross_entropy(scores, torch.randint(0, 10, (8,)))
    model.zero_grad()
    loss.backward()
    for parameter, master in zip(model.parameters(), masters, strict=True):
        master.grad = parameter.grad.float()
    optimizer.step()
