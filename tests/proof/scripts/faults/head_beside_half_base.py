"""A float32 head on a frozen float16 base under Accelerate's fp16, whose autocast waits for a card.

expects: autocast (error), command-failed (error)
"""

import mini
import torch
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="fp16")
base = mini.Mini().requires_grad_(False).half()
head = torch.nn.Linear(mini.VOCABULARY, 1)
model = torch.nn.Sequential(base, head)
optimizer = torch.optim.AdamW(head.parameters(), lr=1e-3)
model, optimizer = accelerator.prepare(model, optimizer)
for _ in range(30):
    scores = model[1](model[0].logits(mini.batch()["input_ids"]))
    accelerator.backward(scores.float().square().mean())
    optimizer.step()
    optimizer.zero_grad()
