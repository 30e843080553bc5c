import torch

x = torch.bfloat16
y = (torch
     .bfloat16)