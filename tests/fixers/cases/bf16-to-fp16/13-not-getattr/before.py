import torch

a = use(torch, "bfloat16")
b = library.use(torch, "bfloat16")
c = getattr(torch, "float16")
d = getattr("torch", "bfloat16")
