import torch

match name:
    case "bf16" | "bfloat16":
        dtype = torch.bfloat16
    case "fp16" | "float16":
        dtype = torch.float16
    case "fp32":
        dtype = torch.float32
match mode:
    case "train":
        weights = torch.zeros(1, dtype=torch.float16)
    case _:
        weights = None
