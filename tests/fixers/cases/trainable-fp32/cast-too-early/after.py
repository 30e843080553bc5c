import torch

for p in model.parameters():
    if p.requires_grad:
        p.data = p.data.float()
model = get_peft_model(model, config)
for parameter in model.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
optimizer = torch.optim.AdamW(model.parameters())
