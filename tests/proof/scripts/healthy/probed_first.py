"""One step measures the memory that a batch needs; the weights are restored before the training begins."""

import copy

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
state = copy.deepcopy(model.state_dict())
with mini.autocast():
    loss = model(**mini.batch())
loss.float().backward()
optimizer.step()
optimizer.zero_grad()
model.load_state_dict(state)
mini.train(model, optimizer=optimizer)
