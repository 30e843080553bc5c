"""Adafactor without a learning rate computes one from the step number."""

import mini
from transformers.optimization import Adafactor

model = mini.Mini()
optimizer = Adafactor(mini.trained(model), lr=None, relative_step=True, scale_parameter=True, warmup_init=True)
for _ in range(30):
    model(**mini.batch()).backward()
    optimizer.step()
    optimizer.zero_grad()
