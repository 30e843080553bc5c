"""Accelerate accumulates two micro-batches, clips when it synchronises gradients, and advances the schedule.

shows: gradient-clipping (info)
"""

import mini
import torch
from accelerate import Accelerator

torch.manual_seed(7)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = mini.Mini()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 60)
model, optimizer, schedule = accelerator.prepare(model, optimizer, schedule)
for _ in range(60):
    with accelerator.accumulate(model):
        accelerator.backward(model(**mini.batch()))
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
