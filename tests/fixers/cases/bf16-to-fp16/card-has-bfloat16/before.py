import torch
x = torch.bfloat16
