import torch
from torch.distributed.fsdp import MixedPrecision

policy = MixedPrecision(torch.bfloat16, torch.bfloat16, torch.bfloat16)
