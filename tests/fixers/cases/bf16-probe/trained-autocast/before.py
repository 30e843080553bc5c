import torch

if torch.cuda.is_available() and torch.cuda.is_bf16_supported():
    autocast = functools.partial(torch.amp.autocast, "cuda", dtype=torch.bfloat16)
else:
    autocast = contextlib.nullcontext


def step(model, text):
    with autocast():
        return model(text).mean()


@torch.no_grad()
def speak(model, text):
    with autocast():
        return model(text)
