import torch

x = torch.bfloat16
y = torch . bfloat16  # torch.bfloat16
z = (torch
     .bfloat16)
w = (torch).bfloat16
