"""The loss is multiplied by a constant and the gradients are divided by it, without a GradScaler."""

import mini
import torch

SCALE = 1024.0

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for _ in range(30):
    with mini.autocast():
        loss = model(**mini.batch())
    (loss * SCALE).backward()
    for parameter in mini.trained(model):
        parameter.grad.div_(SCALE)
    optimizer.step()
    optimizer.zero_grad()
