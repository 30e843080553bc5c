import torch

x = torch.float16
y = torch . float16  # torch.bfloat16
z = (torch
     .float16)
w = (torch).float16
