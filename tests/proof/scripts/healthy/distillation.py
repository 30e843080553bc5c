"""A student learns from a frozen teacher; the outputs of both are cast to float32 before they are compared."""

import mini
import torch
import torch.nn.functional as F

student, teacher = mini.build(), mini.build(mini.Mini()).eval()
optimizer = torch.optim.AdamW(mini.trained(student), lr=1e-3)
scaler = mini.scaler()
for _ in range(30):
    tokens = mini.batch()["input_ids"]
    with torch.no_grad(), mini.autocast():
        wanted = teacher.logits(tokens).float().softmax(-1)
    with mini.autocast():
        scores = student.logits(tokens)
    loss = F.kl_div(scores.float().log_softmax(-1), wanted, reduction="batchmean") + F.cross_entropy(
        scores.float().flatten(0, 1), tokens.flatten()
    )
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(mini.trained(student), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
