"""The loss is multiplied by a constant; its gradients are clipped and applied without dividing them again.

expects: scaler, gradient-scale
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for _ in range(30):
    with mini.autocast():
        loss = model(**mini.batch())
    (loss * 1024.0).backward()
    torch.nn.utils.clip_grad_norm_(mini.trained(model), 1.0)
    optimizer.step()
    optimizer.zero_grad()
