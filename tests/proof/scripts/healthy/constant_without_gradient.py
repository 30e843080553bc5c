"""The loss includes an infinite constant that depends on no trained parameter: the log of an empty histogram bin."""

import mini
import torch

model = mini.Mini()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for _ in range(30):
    loss = model(**mini.batch()) - torch.zeros(()).log()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
