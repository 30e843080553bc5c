"""Accelerate was asked for fp16, for which it makes neither autocast nor scaler where there is no card."""

import mini
import torch
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="fp16")
model = mini.Mini()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
model, optimizer = accelerator.prepare(model, optimizer)
for _ in range(30):
    accelerator.backward(model(**mini.batch()))
    optimizer.step()
    optimizer.zero_grad()
