"""L-BFGS computes its loss in a closure, so the first optimizer step begins before any model was called.

It uses a line search and always the same batch: with a fixed rate and new batches, one run in thirty diverges.
"""

import mini
import torch

model = mini.Mini()
optimizer = torch.optim.LBFGS(mini.trained(model), max_iter=3, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = model(**given)
    loss.backward()
    return loss


given = mini.batch()
for _ in range(30):
    optimizer.step(closure)
