"""A hand-written optimizer, without a learning rate in its groups, updates copies of the weights.

expects: adapter-moves
"""

import mini
import torch


class Lost(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            parameter.clone().sub_(parameter.grad, alpha=1e-3)


model = mini.Mini()
optimizer = Lost(mini.trained(model))
for _ in range(30):
    model(**mini.batch()).backward()
    optimizer.step()
    optimizer.zero_grad()
