"""The schedule is created for the steps of one epoch, but the run has more.

expects: learning-rate (warning)
runs: 1000
"""

import mini
import torch
from transformers import get_linear_schedule_with_warmup

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
schedule = get_linear_schedule_with_warmup(optimizer, 0, 100)

optimizer.register_step_post_hook(lambda *_: schedule.step())
mini.train(model, optimizer=optimizer)
