import torch


def keep_trainables_float32(module):
    for p in module.parameters():
        if p.requires_grad:
            p.data = p.data.float()


def train(model):
    model = model.half()
    keep_trainables_float32(model)
    optimizer = torch.optim.AdamW(model.parameters())
