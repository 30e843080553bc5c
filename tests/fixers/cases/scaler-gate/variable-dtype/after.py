import torch

amp_dtype = DTYPES[args.precision]
scaler = torch.amp.GradScaler("cuda", enabled=amp_dtype == torch.float16)
old = torch.cuda.amp.GradScaler(enabled=amp_dtype == torch.float16)
with torch.autocast("cuda", dtype=amp_dtype):
    loss = model(x)
scaler.scale(loss).backward()
