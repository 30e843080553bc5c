import torch

use_bf16 = torch.cuda.is_bf16_supported()
dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
if torch.cuda.is_available() and torch.cuda.is_bf16_supported():
    pass
if flag and torch.cuda.is_bf16_supported():
    pass
args = make(bf16=torch.cuda.is_bf16_supported(), fp16=not torch.cuda.is_bf16_supported())
print(torch.cuda.is_bf16_supported() == use_bf16, torch.cuda.is_bf16_supported())
