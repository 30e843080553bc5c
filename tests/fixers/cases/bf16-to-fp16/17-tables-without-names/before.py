import torch

types = all_types_and(torch.float16, torch.bfloat16)
DTYPES = {"fp8": torch.bfloat16, "fp16": torch.float16}
