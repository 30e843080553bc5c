"""An average of the weights is swapped in for each evaluation, and out again.

shows: weights-between (info)
"""

import copy

import mini
import torch

torch.manual_seed(7)
model = mini.Mini()
average = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for _ in range(30):
    model(**mini.batch()).backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        for mean, parameter in zip(average.parameters(), model.parameters(), strict=True):
            mean.lerp_(parameter, 0.01)
        kept = copy.deepcopy(model.state_dict())
        model.load_state_dict(average.state_dict())
        print("evaluated", float(model.eval()(**mini.batch())))
        model.train().load_state_dict(kept)
