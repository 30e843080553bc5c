"""The projector is trained first; the adapter's optimizer exists from the start and takes its first step later."""

import mini
import torch

model = mini.Mini()
model.head.requires_grad_(True)
first = torch.optim.AdamW(model.head.parameters(), lr=1e-3)
later = torch.optim.AdamW([p for name, p in model.named_parameters() if "lora" in name], lr=1e-3)
for step in range(30):
    model(**mini.batch()).backward()
    (first if step < 15 else later).step()
    model.zero_grad()
