import torch

model = load().half()
masters = [parameter.detach().clone().float() for parameter in model.parameters()]
optimizer = torch.optim.AdamW(masters, lr=1e-4)
