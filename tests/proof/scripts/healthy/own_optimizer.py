"""An optimizer of one's own keeps its rate to itself, takes a closure, and clears what it used."""

import mini
import torch


class Signs(torch.optim.Optimizer):
    def __init__(self, parameters, rate):
        super().__init__(parameters, {"lr": 0.0})
        self.rate = rate

    @torch.no_grad()
    def step(self, closure=None):
        with torch.enable_grad():
            loss = closure()
        for parameter in self.param_groups[0]["params"]:
            parameter.sub_(parameter.grad.sign(), alpha=self.rate)
            parameter.grad = None
        return loss


def closure():
    loss = model(**given)
    loss.backward()
    return loss


model = mini.Mini()
optimizer = Signs(mini.trained(model), rate=1e-3)
for _ in range(30):
    given = mini.batch()
    optimizer.step(closure)
