import torch

x = torch.bfloat16
if 1:
	y = torch.bfloat16
