import torch

model = get_peft_model(model, config)
for name, p in model.named_parameters():
    if p.requires_grad:
        p.data = p.data.to(torch.float32)
print("ready")
optimizer = torch.optim.AdamW(model.parameters())
