import torch

parameter = torch.float16
optimizer = torch.optim.AdamW(model.parameters())
