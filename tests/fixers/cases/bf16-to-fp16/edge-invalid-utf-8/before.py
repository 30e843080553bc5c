import torch
x = "ÿ"
y = torch.bfloat16
