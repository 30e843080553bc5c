"""Gradients are halved after each step instead of cleared, which acts as a momentum."""

import mini
import torch

model = mini.Mini()
optimizer = torch.optim.SGD(mini.trained(model), lr=1e-3)
for _ in range(30):
    model(**mini.batch()).backward()
    optimizer.step()
    for parameter in mini.trained(model):
        parameter.grad.mul_(0.5)
