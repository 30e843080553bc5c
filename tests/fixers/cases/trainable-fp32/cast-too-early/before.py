import torch

for p in model.parameters():
    if p.requires_grad:
        p.data = p.data.float()
model = get_peft_model(model, config)
optimizer = torch.optim.AdamW(model.parameters())
