"""Each layer's adapter has its own optimizer."""

import mini
import torch

model = mini.build()
optimizers = [torch.optim.AdamW(mini.trained(layer), lr=1e-3) for layer in model.layers]
scaler = mini.scaler()
for _ in range(30):
    with mini.autocast():
        loss = model(**mini.batch())
    scaler.scale(loss).backward()
    for optimizer in optimizers:
        scaler.step(optimizer)
    scaler.update()
    for optimizer in optimizers:
        optimizer.zero_grad()
