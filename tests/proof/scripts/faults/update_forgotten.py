"""scaler.update() is never called.

expects: scaler-update-missing
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = mini.scaler()
for _ in range(3):
    with mini.autocast():
        loss = model(**mini.batch())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    optimizer.zero_grad()
