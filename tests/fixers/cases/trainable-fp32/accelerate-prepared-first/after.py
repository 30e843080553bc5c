import torch
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="fp16")
for parameter in model.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
model = accelerator.prepare(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
