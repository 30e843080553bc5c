import torch

a = torch.amp.GradScaler("cuda", enabled=fp16)
b = torch.amp.GradScaler("cuda", **options)
with torch.autocast("cuda", dtype=dtype):
    pass


def other():
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(x)
    scaler.scale(loss).backward()
