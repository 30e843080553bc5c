"""Adafactor without a rate computes one itself from the number of the step."""

import mini
from transformers.optimization import Adafactor

model = mini.Mini()
optimizer = Adafactor(mini.trained(model), lr=None, relative_step=True, scale_parameter=True, warmup_init=True)
for _ in range(30):
    model(**mini.batch()).backward()
    optimizer.step()
    optimizer.zero_grad()
