import torch

a = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
supported = torch.cuda.get_device_capability()[0] >= 8
b = torch.bfloat16 if supported else torch.float16
if torch.cuda.get_device_capability() >= (8, 0):
    c = torch.bfloat16
else:
    c = torch.float16
d = "bfloat16" if supported else "float16"


def best():
    if not torch.cuda.is_bf16_supported():
        return torch.float16
    return torch.bfloat16
