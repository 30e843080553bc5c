"""The loss is scaled, but optimizer.step() is called directly, so gradients are applied with the scale in them.

expects: gradient-scale
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.SGD(mini.trained(model), lr=1e-3)
scaler = mini.scaler()
for _ in range(30):
    with mini.autocast():
        loss = model(**mini.batch())
    scaler.scale(loss).backward()
    optimizer.step()
    optimizer.zero_grad()
