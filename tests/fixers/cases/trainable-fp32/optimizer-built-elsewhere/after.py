import torch
from optim import build_optimizer
from peft import get_peft_model

model = get_peft_model(load(), config).half()
for parameter in model.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
optimizer = build_optimizer(model, lr=1e-4)
