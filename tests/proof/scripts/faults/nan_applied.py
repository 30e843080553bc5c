"""Without a loss scaler, a NaN gradient is applied to the weights.

expects: gradient-finite
"""

import mini
import torch


class Poisoned(mini.Mini):
    def logits(self, input_ids):
        scores = super().logits(input_ids)
        scores.register_hook(lambda gradient: gradient * float("nan"))
        return scores


model = Poisoned().float()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for _ in range(30):
    loss = model(**mini.batch())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
