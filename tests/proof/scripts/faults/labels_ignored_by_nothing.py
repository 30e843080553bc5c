"""Multi-hot targets of a binary cross entropy, which has no ignore_index, are padded with -100.

expects: labels-ignored
"""

import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(16, 12)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(4):
    labels = F.pad(torch.randint(0, 2, (8, 9)).float(), (0, 3), value=-100)
    loss = nn.BCEWithLogitsLoss()(model(torch.randn(8, 16)), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
