import deepspeed
import torch

model = model.half()
optimizer = torch.optim.AdamW(model.parameters())
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer)
