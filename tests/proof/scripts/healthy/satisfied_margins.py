"""The first batches violate no margin, so their triplet loss is 0.0 and has no gradient."""

import torch
from torch import nn

torch.manual_seed(7)
model = nn.Linear(16, 16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(30):
    anchor, other = torch.randn(8, 16), torch.randn(8, 16)
    near, far = (anchor, 9 * other) if step < 4 else (other, anchor)
    nn.functional.triplet_margin_loss(model(anchor), model(near), model(far), margin=0.1).backward()
    optimizer.step()
    optimizer.zero_grad()
