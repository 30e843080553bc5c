"""Two optimizers in float32, without a scaler: the second one steps after the first, and both must be recorded."""

import mini
import torch

model = mini.Mini()
optimizers = [torch.optim.AdamW(mini.trained(layer), lr=1e-3) for layer in model.layers]
for _ in range(30):
    loss = model(**mini.batch())
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    for optimizer in optimizers:
        optimizer.zero_grad()
