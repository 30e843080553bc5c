import torch

with torch.autocast("cuda", dtype=torch.float16):
    loss = model(x)
loss.backward()
