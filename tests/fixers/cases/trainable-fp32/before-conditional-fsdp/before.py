import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def setup(model, distributed):
    model.to(torch.float16)
    if distributed:
        model = FSDP(model)
    return torch.optim.AdamW(model.parameters())
