"""Gradients are clipped to a maximum norm of 0, which was meant to disable clipping.

expects: gradient-clipping
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaling = mini.scaler()
for _ in range(30):
    with mini.autocast():
        loss = model(**mini.batch())
    scaling.scale(loss).backward()
    scaling.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(mini.trained(model), 0.0)
    scaling.step(optimizer)
    scaling.update()
    optimizer.zero_grad()
