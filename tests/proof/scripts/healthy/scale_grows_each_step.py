"""The loss scale doubles after every applied step, so it repeatedly reaches the limit and overflows."""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=1)
for _ in range(60):
    with mini.autocast():
        loss = model(**mini.batch())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
