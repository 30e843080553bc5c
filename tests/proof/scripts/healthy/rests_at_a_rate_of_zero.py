"""The parameter group of the first layer's adapter has a learning rate of 0."""

import mini
import torch

model = mini.build()
groups = [{"params": mini.trained(layer), "lr": rate} for layer, rate in zip(model.layers, (0.0, 1e-3), strict=True)]
mini.train(model, optimizer=torch.optim.AdamW(groups))
