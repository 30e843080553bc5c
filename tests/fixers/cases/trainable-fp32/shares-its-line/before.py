import torch

model.half(); optimizer = torch.optim.AdamW(model.parameters())
