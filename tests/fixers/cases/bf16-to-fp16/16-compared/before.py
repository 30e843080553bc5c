import torch

if dtype == torch.bfloat16 or dtype in (torch.bfloat16, torch.half):
    pass
assert dtype is torch.bfloat16
if args.precision == "bf16":
    use(args)
match dtype:
    case torch.bfloat16:
        pass
