"""L-BFGS computes its loss in a closure: the first step begins before any model was called."""

import mini
import torch

model = mini.Mini()
optimizer = torch.optim.LBFGS(mini.trained(model), lr=0.1, max_iter=3)


def closure():
    optimizer.zero_grad()
    loss = model(**given)
    loss.backward()
    return loss


for _ in range(30):
    given = mini.batch()
    optimizer.step(closure)
