import torch
from torch.distributed.fsdp import MixedPrecision

policy = MixedPrecision(torch.float16, torch.float32, torch.float16)
