import torch

torch.bfloat16 = 3
del torch.bfloat16
