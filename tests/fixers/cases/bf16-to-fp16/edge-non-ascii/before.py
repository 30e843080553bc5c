import torch
schön = "größe"; x = torch.bfloat16; ü = torch.bfloat16
