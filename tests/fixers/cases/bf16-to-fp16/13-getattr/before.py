import torch

a = getattr(torch, "bfloat16")
b = getattr(torch, args.dtype)
c = getattr(args, "dtype", "bfloat16")
d = getattr(thing, "bfloat16")
