"""The loss is computed in float16.

expects: loss-dtype
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = mini.scaler()
for _ in range(30):
    given = mini.batch()
    with mini.autocast():
        scores = model.logits(given["input_ids"])
    loss = torch.nn.functional.cross_entropy(scores[:, :-1].flatten(0, 1).half(), given["labels"][:, 1:].flatten())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
