import torch

optimizer = torch.optim.AdamW(model.parameters())
for step, batch in enumerate(loader):
    if step == 1:
        model.to(torch.float16)
