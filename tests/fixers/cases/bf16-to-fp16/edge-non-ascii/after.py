import torch
schön = "größe"; x = torch.float16; ü = torch.float16
