import torch
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="fp16")
optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-4)
model, optimizer = accelerator.prepare(model, optimizer)
