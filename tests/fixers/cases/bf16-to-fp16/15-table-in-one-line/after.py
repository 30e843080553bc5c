import torch

a = torch.bfloat16 if cfg.amp == "bf16" else torch.float16 if cfg.amp == "fp16" else None
b = torch.bfloat16 if cfg.amp == "bf16" else torch.float16 if cfg.amp == "fp16" else torch.float32
