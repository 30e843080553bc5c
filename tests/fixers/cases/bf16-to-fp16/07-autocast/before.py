import torch

with torch.autocast("cuda", dtype=torch.bfloat16), torch.cuda.amp.autocast(dtype=torch.bfloat16):
    pass
with torch.autocast("cpu", dtype=torch.bfloat16), torch.autocast(device_type="cpu", dtype=torch.bfloat16):
    pass
