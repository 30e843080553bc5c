"""From the first evaluation on, batch normalisation stays in eval mode; a cyclic schedule reaches a rate of 0."""

import torch
from torch import nn

torch.manual_seed(7)
model = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - (step % 10) / 8))
for step in range(30):
    nn.functional.cross_entropy(model(torch.randn(16, 16)), torch.randint(0, 4, (16,))).backward()
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()
    if step % 6 == 5:
        with torch.no_grad():
            print("evaluated", float(model.eval()(torch.randn(16, 16)).mean()))
        model.train()
        model[1].eval()
