import torch
import torch.nn.functional as F

with torch.autocast("cuda", dtype=torch.float16):
    a = F.mse_loss(x, y)
    b = F.huber_loss(x.float(), y.float())


@torch.autocast("cuda", dtype=torch.float16)
def loss(x, y):
    return F.mse_loss(x, y)
