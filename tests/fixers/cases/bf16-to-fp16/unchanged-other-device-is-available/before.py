import torch
from transformers import is_ipex_available, is_torch_npu_available

dtype = torch.float16
if dtype == torch.float16 and (is_ipex_available() and torch.xpu.is_available()):
    dtype = torch.bfloat16
    print("Intel XPU does not support float16 yet, so switching to bfloat16")
if is_torch_npu_available():
    dtype = torch.bfloat16
