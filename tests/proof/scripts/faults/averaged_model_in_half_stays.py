"""AveragedModel holds a float16 copy: the first update copies the weights, all later updates round to nothing.

expects: average-moves (warning)
"""

import copy

import mini
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.manual_seed(7)
model = mini.Mini()
average = AveragedModel(copy.deepcopy(model).half(), multi_avg_fn=get_ema_multi_avg_fn(0.9999))
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for _ in range(30):
    scaler.scale(model(**mini.batch())).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    average.update_parameters(copy.deepcopy(model).half())
