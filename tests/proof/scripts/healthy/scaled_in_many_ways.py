"""Scaled losses are added and divided by the number of micro-steps; a second optimizer uses no scaler."""

import mini
import torch
from torch import nn

model = mini.build()
critic = nn.Linear(1, 1)
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
beside = torch.optim.AdamW(critic.parameters(), lr=1e-3)
scaler = mini.scaler()
for _ in range(30):
    for _ in range(2):
        with mini.autocast():
            loss = model(**mini.batch())
        ((scaler.scale(loss) + scaler.scale(0.1 * loss)) / 2).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_value_(mini.trained(model), 1.0)
    scaler.step(optimizer)
    critic(loss.detach().float().view(1, 1)).pow(2).mean().backward()
    nn.utils.clip_grad_norm_((p for p in critic.parameters()), 1.0)
    beside.step()
    scaler.update()
    optimizer.zero_grad()
    beside.zero_grad()
