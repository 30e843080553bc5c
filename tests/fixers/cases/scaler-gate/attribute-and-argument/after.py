import torch
from torch.amp import GradScaler, autocast


def train(model, config):
    scaler = GradScaler("cuda", init_scale=2.0**12, enabled=config.dtype == torch.float16)
    with autocast("cuda", dtype=config.dtype):
        loss = model()
    scaler.scale(loss).backward()
