"""After every step, the initial weights are copied into the model, as an average that is never updated.

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
