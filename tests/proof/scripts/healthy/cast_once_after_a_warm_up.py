"""After a first step in float32, the model is cast to half precision and its trained weights back to float32.

shows: weights-between (warning)
"""

import mini
import torch

torch.manual_seed(7)
model = mini.Mini()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for step in range(30):
    model(**mini.batch()).backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 0:
        model.half()
        for parameter in model.parameters():
            parameter.data = parameter.data.float()
