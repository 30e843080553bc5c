"""The first micro-batch is unscaled, then the scaled gradients of the second are added to it.

A second script for the same check.

expects: gradient-scale (error)
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = mini.scaler()
for _ in range(30):
    with mini.autocast():
        first, second = model(**mini.batch()) / 2, model(**mini.batch()) / 2
    scaler.scale(first).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(mini.trained(model), 1.0)
    scaler.scale(second).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
