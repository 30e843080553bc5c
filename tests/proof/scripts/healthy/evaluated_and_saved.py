"""The model is evaluated every few steps, and saved from a half-precision copy; the learning rate ends at 0.

runs: 30
"""

import copy

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=29)
scaling = mini.scaler()
for step in range(30):
    with mini.autocast():
        loss = model(**mini.batch())
    scaling.scale(loss).backward()
    scaling.step(optimizer)
    scaling.update()
    optimizer.zero_grad()
    schedule.step()
    if step % 5 == 4:
        with torch.no_grad(), mini.autocast():
            print("evaluated", float(model.eval()(**mini.batch())))
        torch.save(copy.deepcopy(model).half().state_dict(), "model.pt")
        model.train()
