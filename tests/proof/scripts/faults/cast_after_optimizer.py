"""Parameters change their dtype after the optimizer was created.

expects: optimizer-before-cast
"""

import mini
import torch

model = mini.build().half()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for parameter in mini.trained(model):
    parameter.data = parameter.data.float()
mini.train(model, optimizer=optimizer)
