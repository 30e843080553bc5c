"""The learning rate is 0 in the first five steps of the schedule."""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, min(1.0, (step - 4) / 4)))
scaler = mini.scaler()
for _ in range(30):
    with mini.autocast():
        loss = model(**mini.batch())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    schedule.step()
