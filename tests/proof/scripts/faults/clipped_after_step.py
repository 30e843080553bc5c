"""Gradients are clipped after the step that used them.

expects: gradient-clipping
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = mini.scaler()
for _ in range(30):
    with mini.autocast():
        loss = model(**mini.batch())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.zero_grad()
