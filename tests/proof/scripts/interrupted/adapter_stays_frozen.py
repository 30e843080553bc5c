"""An evaluation freezes the adapter of one layer and does not unfreeze it.

expects: trainable-set
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
mini.train(model, optimizer=optimizer, steps=5)
for parameter in mini.trained(model.layers[1]):
    parameter.requires_grad_(False)
with torch.no_grad(), mini.autocast():
    print("evaluated", float(model.eval()(**mini.batch())))
model.train()
mini.train(model, optimizer=optimizer, steps=8)
