import torch
from optim import build_optimizer
from peft import get_peft_model

model = get_peft_model(load(), config).half()
optimizer = build_optimizer(model, lr=1e-4)
