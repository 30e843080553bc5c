"""Weights are float16 and nothing runs under autocast: one layer only disables autocast for its own computation.

expects: autocast
"""

import mini
import torch


class Island(torch.nn.Module):
    def __init__(self, inside):
        super().__init__()
        self.inside = inside

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            return self.inside(x.float()).half()


model = mini.build().half()
model.layers[0].norm = Island(model.layers[0].norm.float())
optimizer = torch.optim.SGD(mini.trained(model), lr=1e-3)
for _ in range(30):
    loss = model(**mini.batch())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
