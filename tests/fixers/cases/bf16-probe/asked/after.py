import torch

use_bf16 = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)
dtype = torch.bfloat16 if torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0) else torch.float16
if torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0):
    pass
if flag and torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0):
    pass
args = make(bf16=torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0), fp16=not (torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)))
print((torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)) == use_bf16, (torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)))
