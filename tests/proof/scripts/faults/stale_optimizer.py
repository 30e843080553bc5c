"""The optimizer holds parameters that are no longer in the model.

expects: optimizer-parameters, no-inf-checks
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for layer in model.layers:
    for part in (layer.query, layer.value):
        part.lora_A = torch.nn.Parameter(part.lora_A.detach().clone())
        part.lora_B = torch.nn.Parameter(part.lora_B.detach().clone())
mini.train(model, optimizer=optimizer)
