"""Targets of -100 lie beyond the lengths given to a CTC loss, or are ignored by a cross entropy."""

import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(16, 12)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(4):
    labels = F.pad(torch.randint(1, 12, (4, 5)), (0, 2), value=-100)
    frames = model(torch.randn(4, 20, 16))
    lengths = torch.full((4,), 20), torch.full((4,), 5)
    loss = F.ctc_loss(frames.log_softmax(-1).transpose(0, 1), labels, *lengths)
    loss = loss + F.cross_entropy(frames[:, :7].flatten(0, 1), labels.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
