import torch

model.to(torch.bfloat16)
model.to(dtype=torch.bfloat16)
x = x.to("cuda", torch.bfloat16)
