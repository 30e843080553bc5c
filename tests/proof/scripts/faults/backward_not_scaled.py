"""The result of scaler.scale() is discarded: the scaler divides gradients that were never multiplied by its scale.

expects: gradient-scale
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = mini.scaler()
for _ in range(30):
    with mini.autocast():
        loss = model(**mini.batch())
    scaler.scale(loss)
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
