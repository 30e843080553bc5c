import torch

x = torch.float16
if 1:
	y = torch.float16
