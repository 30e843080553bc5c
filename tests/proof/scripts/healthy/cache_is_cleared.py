"""Each step runs under autocast, and autocast's cache of cast weights is cleared before the next step."""

import mini
import torch

torch.manual_seed(7)
model = mini.Mini()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = mini.scaler()


def step():
    scaler.scale(model(**mini.batch())).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()


for _ in range(10):
    with mini.autocast():
        for _ in range(2):
            step()
            torch.clear_autocast_cache()
        step()
