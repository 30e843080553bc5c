import torch

a = torch.bfloat16
if not torch.cuda.get_device_capability() >= (8, 0):
    print("old card")
b = torch.bfloat16
supported: bool = False
c = torch.bfloat16 if supported else torch.float16
