import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def setup(model, distributed):
    model.to(torch.float16)
    for parameter in model.parameters():  # a loss scaler refuses float16 gradients
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    if distributed:
        for parameter in model.parameters():  # FSDP flattens parameters of one dtype
            parameter.data = parameter.data.float()
        model = FSDP(model)
    return torch.optim.AdamW(model.parameters())
