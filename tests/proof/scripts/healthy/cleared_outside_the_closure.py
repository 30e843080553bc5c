"""Gradients are cleared before L-BFGS is called, so its step begins without gradients."""

import mini
import torch

model = mini.Mini()
optimizer = torch.optim.LBFGS(mini.trained(model), lr=0.1, max_iter=1)


def closure():
    loss = model(**given)
    loss.backward()
    return loss


for _ in range(30):
    given = mini.batch()
    optimizer.zero_grad()
    optimizer.step(closure)
