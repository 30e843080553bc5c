"""A float16 average is updated through `.data`, which does not increase the tensor's version counter.

expects: average-moves (warning)
"""

import copy

import mini
import torch

torch.manual_seed(7)
model = mini.Mini()
average = copy.deepcopy(model).half()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for _ in range(30):
    model(**mini.batch()).backward()
    optimizer.step()
    optimizer.zero_grad()
    for mean, parameter in zip(average.parameters(), model.parameters(), strict=True):
        mean.data.mul_(0.9999).add_(parameter.data.half(), alpha=0.0001)
