import torch

a = getattr(torch, "float16")
b = getattr(torch, args.dtype)
c = getattr(args, "dtype", "float16")
d = getattr(thing, "bfloat16")
