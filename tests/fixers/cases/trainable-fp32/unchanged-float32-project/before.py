import torch

optimizer = torch.optim.AdamW(model.parameters())
