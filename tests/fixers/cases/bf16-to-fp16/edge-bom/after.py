import torch
x = torch.float16
