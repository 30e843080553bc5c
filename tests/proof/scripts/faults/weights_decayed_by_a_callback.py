"""A callback shrinks the adapter's weights after each step.

expects: weights-between (warning)
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)


def make():
    with torch.no_grad():
        for parameter in mini.trained(model):
            parameter.mul_(0.9)
    return mini.batch()


mini.train(model, optimizer=optimizer, make=make)
