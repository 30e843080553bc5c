"""Gradients are clipped to a norm of 1e-8; Adam needs only their direction."""

import mini
import torch

model = mini.Mini()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3, eps=1e-16)
for _ in range(30):
    model(**mini.batch()).backward()
    torch.nn.utils.clip_grad_norm_(mini.trained(model), max_norm=1e-8)
    optimizer.step()
    optimizer.zero_grad()
