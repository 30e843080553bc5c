"""Gradients are unscaled to log their norm and cleared; then two micro-batches are accumulated and unscaled once.

shows: gradient-scale (info)
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = mini.scaler()
for _ in range(30):
    with mini.autocast():
        probe = model(**mini.batch())
    scaler.scale(probe).backward()
    scaler.unscale_(optimizer)
    print("norm", float(torch.nn.utils.get_total_norm([p.grad for p in mini.trained(model) if p.grad is not None])))
    scaler.update()
    optimizer.zero_grad()
    for _ in range(2):
        with mini.autocast():
            loss = model(**mini.batch()) / 2
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(mini.trained(model), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
