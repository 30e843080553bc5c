"""A callback of a plain loop, whose length is unknown, sets the learning rate to 0.

A second script for the same check.

expects: learning-rate
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
mini.train(model, optimizer=optimizer, steps=5)
for group in optimizer.param_groups:
    group["lr"] = 0.0
mini.train(model, optimizer=optimizer, steps=25)
