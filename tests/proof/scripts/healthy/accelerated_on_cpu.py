"""Accelerate is set to fp16, but enables neither autocast nor a scaler without a card."""

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
