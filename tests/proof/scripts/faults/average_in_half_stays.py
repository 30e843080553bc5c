"""The moving average of a model is kept in bfloat16, where its small updates round to nothing.

expects: average-moves (warning)
"""

import copy

import mini
import torch

torch.manual_seed(7)
model = mini.Mini()
average = copy.deepcopy(model).bfloat16().requires_grad_(False)
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for _ in range(30):
    model(**mini.batch()).backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        for mean, parameter in zip(average.parameters(), model.parameters(), strict=True):
            mean.lerp_(parameter.to(mean.dtype), 0.001)
