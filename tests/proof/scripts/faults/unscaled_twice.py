"""scaler.unscale_ is called directly, and again by a second clipping.

expects: unscale-twice
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = mini.scaler()
with mini.autocast():
    loss = model(**mini.batch())
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
scaler.unscale_(optimizer)
