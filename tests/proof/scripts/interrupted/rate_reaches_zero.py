"""The learning rate schedule reaches 0 before the end of the run.

expects: learning-rate
runs: 200
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=8)
for _ in range(20):
    mini.train(model, optimizer=optimizer, steps=1)
    schedule.step()
