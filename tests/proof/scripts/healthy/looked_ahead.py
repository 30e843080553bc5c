"""Sharpness-aware minimisation: weights are moved along one gradient and restored before the optimizer step."""

import mini
import torch

torch.manual_seed(7)
model = mini.Mini()
trained = mini.trained(model)
optimizer = torch.optim.SGD(trained, lr=0.1)
for _ in range(30):
    batch = mini.batch()
    model(**batch).backward()
    moves = [0.01 * parameter.grad for parameter in trained]
    with torch.no_grad():
        for parameter, move in zip(trained, moves, strict=True):
            parameter.add_(move)
    optimizer.zero_grad()
    model(**batch).backward()
    with torch.no_grad():
        for parameter, move in zip(trained, moves, strict=True):
            parameter.sub_(move)
    optimizer.step()
    optimizer.zero_grad()
