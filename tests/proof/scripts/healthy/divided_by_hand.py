"""The scaler only scales the loss; the loop itself divides the gradients by the scale."""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = mini.scaler()
for _ in range(30):
    with mini.autocast():
        loss = model(**mini.batch())
    scaler.scale(loss).backward()
    for parameter in mini.trained(model):
        parameter.grad.div_(scaler.get_scale())
    optimizer.step()
    optimizer.zero_grad()
