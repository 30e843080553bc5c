"""The learning rate schedule advances only if the scaler did not skip the step."""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
scaler = mini.scaler(2.0**26)
for _ in range(30):
    with mini.autocast():
        loss = model(**mini.batch())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scale_before = scaler.get_scale()
    scaler.update()
    if scaler.get_scale() >= scale_before:
        schedule.step()
    optimizer.zero_grad()
