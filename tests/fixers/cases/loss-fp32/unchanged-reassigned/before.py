import torch
import torch.nn.functional as F


def step(model, batch):
    logits = model(batch).half()
    logits = logits.float()
    labels = batch["labels"].to(dtype=torch.float32)
    return F.mse_loss(logits, labels) + F.mse_loss(logits.float().reshape(-1).contiguous(), 0.0)
