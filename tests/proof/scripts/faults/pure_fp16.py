"""Autocast and scaler were removed; in float16, Adam divides 0 by 0.

expects: trainable-dtype, autocast, loss-finite
"""

import mini
import torch

model = mini.build().half()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for _ in range(30):
    loss = model(**mini.batch())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
