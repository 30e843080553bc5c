# coding: latin-1
import torch
s = "éè"; x = torch.float16  # é
