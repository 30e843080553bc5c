"""Autocast was disabled to make an error disappear; the frozen weights are float16.

expects: autocast, scaler, trainable-dtype
"""

import mini
import torch

model = mini.build().half()
optimizer = torch.optim.SGD(mini.trained(model), lr=1e-3)
for _ in range(30):
    with mini.autocast(enabled=False):
        loss = model(**mini.batch())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
