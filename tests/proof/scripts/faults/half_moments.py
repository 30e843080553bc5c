"""A hand-written optimizer keeps its moments in float16.

expects: optimizer-state-dtype
"""

import mini
import torch


class HalfAdam(torch.optim.Optimizer):
    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            moment = state.setdefault("exp_avg", torch.zeros_like(parameter, dtype=torch.float16))
            moment.mul_(0.9).add_(parameter.grad.half(), alpha=0.1)
            parameter.sub_(moment.float(), alpha=self.param_groups[0]["lr"])


model = mini.build()
mini.train(model, optimizer=HalfAdam(mini.trained(model), lr=1e-2))
