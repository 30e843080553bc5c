"""A fused optimizer, which skips overflowing steps inside its own kernel."""

import mini
import torch

model = mini.build()
mini.train(model, optimizer=torch.optim.AdamW(mini.trained(model), lr=1e-3, fused=True), scale=2.0**24)
