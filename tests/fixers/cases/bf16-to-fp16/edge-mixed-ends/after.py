import torch
x = torch.float16
y = torch.float16
