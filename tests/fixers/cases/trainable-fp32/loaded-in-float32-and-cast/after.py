import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("base", dtype=torch.float32)
model.to(wanted)
scaler = torch.amp.GradScaler("cuda")
for parameter in model.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
