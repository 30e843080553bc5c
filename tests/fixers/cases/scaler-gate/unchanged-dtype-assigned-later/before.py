import torch


def run(model):
    scaler = torch.amp.GradScaler("cuda")
    dtype = torch.float16
    with torch.autocast("cuda", dtype=dtype):
        loss = model()
    scaler.scale(loss).backward()
