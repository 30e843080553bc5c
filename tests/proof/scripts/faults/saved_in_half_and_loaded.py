"""Each checkpoint is saved in half precision and loaded again at once.

A second script for the same check.

expects: weights-between (warning)
"""

import mini
import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
torch.manual_seed(7)
model = mini.Mini()
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(mini.trained(model), lr=1e-3))
for _ in range(30):
    accelerator.backward(model(**mini.batch()))
    optimizer.step()
    optimizer.zero_grad()
    torch.save({name: value.half() for name, value in model.state_dict().items()}, "model.pt")
    model.load_state_dict(torch.load("model.pt"))
