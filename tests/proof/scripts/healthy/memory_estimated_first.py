"""Before the real training, one step runs on fake tensors to estimate its memory.

shows: adapter-moves (info)
"""

import mini
import torch
from torch._subclasses import FakeTensorMode

torch.manual_seed(7)
with FakeTensorMode():
    fake = torch.nn.Linear(8, 8, dtype=torch.float16)
    adam = torch.optim.AdamW(fake.parameters())
    fake(torch.ones(2, 8, dtype=torch.float16)).sum().backward()
    adam.step()
model = mini.Mini()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for _ in range(60):
    optimizer.zero_grad()
    model(**mini.batch()).backward()
    optimizer.step()
