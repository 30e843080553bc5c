import functools

import torch
import torch.nn.functional as F


@decorated
@functools.cache
def loss(x, y):
    x = x.half()
    return F.mse_loss(x, y)


@torch.cuda.amp.autocast
def other(x, y):
    return F.mse_loss(x, y)


async def third(x, y):
    async with torch.autocast("cuda"):
        return F.mse_loss(x, y)


def fourth(x, y):
    x = x.half()
    with open("x"), lock:
        return F.kl_div(F.log_softmax(*x), y), F.mse_loss(x.sigmoid(), target=y), F.mse_loss(x)
