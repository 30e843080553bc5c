"""After each evaluation, the weights of the first evaluation are loaded again.

A second script for the same check.

expects: weights-between
"""

import copy

import mini
import torch

torch.manual_seed(7)
model = mini.Mini()
best = copy.deepcopy(model.state_dict())
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for _ in range(3):
    mini.train(model, optimizer=optimizer, steps=6)
    with torch.no_grad(), mini.autocast():
        print("evaluated", float(model.eval()(**mini.batch())))
    model.train().load_state_dict(best)
