import torch

amp_dtype = DTYPES[args.precision]
scaler = torch.amp.GradScaler("cuda")
old = torch.cuda.amp.GradScaler()
with torch.autocast("cuda", dtype=amp_dtype):
    loss = model(x)
scaler.scale(loss).backward()
