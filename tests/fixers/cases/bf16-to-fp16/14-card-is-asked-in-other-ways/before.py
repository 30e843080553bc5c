import torch

supported = torch.cuda.get_device_capability()[0] >= 8
a = (supported and torch.bfloat16) or torch.float16
b = [torch.bfloat16] if supported else [torch.float16]
while True:
    if not supported:
        break
    c = torch.bfloat16
for name in names:
    if torch.cuda.get_device_capability(name)[0] < 8:
        continue
    d = torch.bfloat16


def need():
    if not supported:
        raise RuntimeError("no bfloat16")
    return torch.bfloat16


try:
    pass
except RuntimeError:
    pass
else:
    if not supported:
        raise SystemExit
    e = torch.bfloat16
