"""The optimizer gets all parameters of the model, including those of a frozen second adapter."""

import mini
import torch

model = mini.build()
for name, parameter in model.named_parameters():
    if "layers.1" in name:
        parameter.requires_grad_(False)
mini.train(model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3))
