"""The learning rate is so small that updates of weights around 0.05 round to nothing.

expects: adapter-moves
"""

import mini
import torch

model = mini.Mini()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-12, weight_decay=0.0)
for _ in range(30):
    loss = model(**mini.batch())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
