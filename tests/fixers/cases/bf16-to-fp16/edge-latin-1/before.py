# coding: latin-1
import torch
s = "éè"; x = torch.bfloat16  # é
