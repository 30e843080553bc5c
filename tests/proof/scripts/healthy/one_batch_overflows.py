"""The loss of the second batch is NaN, and the scaler skips that step."""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = mini.scaler()
for step in range(30):
    with mini.autocast():
        loss = model(**mini.batch(prompt=16 if step == 1 else 6))
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(mini.trained(model), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
