"""An average that never changes is copied into the model after every step.

expects: adapter-moves
"""

import copy

import mini
import torch

model = mini.build()
average = copy.deepcopy(model)
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaling = mini.scaler()
for _ in range(30):
    with mini.autocast():
        loss = model(**mini.batch())
    scaling.scale(loss).backward()
    scaling.step(optimizer)
    scaling.update()
    optimizer.zero_grad()
    model.load_state_dict(average.state_dict())
