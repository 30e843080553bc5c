import torch

model.to(torch.float16)
model.to(dtype=torch.float16)
x = x.to("cuda", torch.float16)
