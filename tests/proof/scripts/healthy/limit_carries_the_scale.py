"""Gradients are clipped before they are unscaled, to a limit that was multiplied by the loss scale."""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = mini.scaler()
for _ in range(30):
    with mini.autocast():
        loss = model(**mini.batch())
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(mini.trained(model), 0.1 * scaler.get_scale())
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
