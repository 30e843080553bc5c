"""The adapter was loaded for inference, so nothing is trainable.

expects: trainable-set, no-grad
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for parameter in model.parameters():
    parameter.requires_grad_(False)
mini.train(model, optimizer=optimizer)
