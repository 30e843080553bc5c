"""An optimizer step has two micro-batches, and only the loss of the first one is scaled.

expects: gradient-scale
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = mini.scaler()
for at in range(60):
    with mini.autocast():
        loss = model(**mini.batch()) / 2
    if at % 2 == 0:
        scaler.scale(loss).backward()
    else:
        loss.backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
