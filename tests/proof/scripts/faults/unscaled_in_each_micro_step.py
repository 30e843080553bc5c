"""Each micro-batch is unscaled to log its norm, and the next one is added to it; an early update() allows that.

expects: gradient-scale (error)
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = mini.scaler()
for _ in range(30):
    for _ in range(2):
        with mini.autocast():
            loss = model(**mini.batch()) / 2
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        print("norm", float(torch.nn.utils.clip_grad_norm_(mini.trained(model), 1.0)))
        scaler.update()
    optimizer.step()
    optimizer.zero_grad()
