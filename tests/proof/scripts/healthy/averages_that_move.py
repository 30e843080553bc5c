"""Moving averages in float32 and in half precision, with updates that are large enough to change their values.

shows: average-moves (info)
"""

import copy

import mini
import torch
from torch.optim.swa_utils import AveragedModel

torch.manual_seed(7)
model = mini.Mini()
wide = copy.deepcopy(model).requires_grad_(False)
quick = copy.deepcopy(model).bfloat16().requires_grad_(False)
mean_of_all = AveragedModel(copy.deepcopy(model).half())
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for _ in range(30):
    model(**mini.batch()).backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        for slow, fast, parameter in zip(wide.parameters(), quick.parameters(), model.parameters(), strict=True):
            slow.mul_(0.999).add_(parameter, alpha=0.001)
            fast.data.mul_(0.5).add_(parameter.bfloat16(), alpha=0.5)
    mean_of_all.update_parameters(copy.deepcopy(model).half())
