import torch

a = torch.bfloat16 if args.half else torch.float32
b = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
dtype = "bfloat16" if args.half else "float32"
