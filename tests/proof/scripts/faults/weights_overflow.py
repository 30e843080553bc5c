"""A single infinite gradient is applied and leaves non-finite weights for the rest of the training.

expects: gradient-finite
"""

import mini
import torch

model = mini.Mini()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for step in range(30):
    model(**mini.batch()).backward()
    if step == 1:
        model.layers[0].query.lora_B.grad[0] = float("inf")
    optimizer.step()
    optimizer.zero_grad()
