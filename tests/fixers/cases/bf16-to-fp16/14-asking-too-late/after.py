import torch

a = torch.float16
if not torch.cuda.get_device_capability() >= (8, 0):
    print("old card")
b = torch.float16
supported: bool = False
c = torch.float16 if supported else torch.float16
