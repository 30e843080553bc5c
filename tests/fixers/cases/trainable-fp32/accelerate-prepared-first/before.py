import torch
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="fp16")
model = accelerator.prepare(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
