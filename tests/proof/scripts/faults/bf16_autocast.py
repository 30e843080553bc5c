"""Autocast in bfloat16 on a card that only emulates it.

expects: autocast
"""

import mini
import torch

model = mini.build().float()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for _ in range(30):
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(**mini.batch())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
