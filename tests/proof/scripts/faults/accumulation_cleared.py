"""Gradients are cleared in every micro-step, so only the last micro-batch of each optimizer step has an effect.

expects: gradient-cleared
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaling = mini.scaler()
for step in range(40):
    optimizer.zero_grad()
    with mini.autocast():
        loss = model(**mini.batch()) / 4
    scaling.scale(loss).backward()
    if step % 4 == 3:
        scaling.step(optimizer)
        scaling.update()
