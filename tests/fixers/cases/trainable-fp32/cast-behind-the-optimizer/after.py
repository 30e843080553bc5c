import torch

for parameter in model.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
optimizer = torch.optim.AdamW(model.parameters())
for step, batch in enumerate(loader):
    if step == 1:
        model.to(torch.float16)
        for parameter in model.parameters():  # a loss scaler refuses float16 gradients
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
