import torch

match name:
    case "bf16":
        dtype = torch.bfloat16
    case "fp16":
        dtype = torch.float16
