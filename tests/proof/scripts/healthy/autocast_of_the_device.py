"""Autocast without a dtype is float16 on a card and bfloat16 on a CPU; the scaler is enabled on a card only."""

import mini
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
model = mini.build().float()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = torch.amp.GradScaler(device)
for _ in range(30):
    with torch.autocast(device_type=device):
        loss = model(**mini.batch())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
