"""num_items_in_batch counts the labels of one micro-batch, not of the whole optimizer step.

expects: loss-normalisation
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = mini.scaler()
for _ in range(30):
    for _ in range(4):
        given = mini.batch()
        items = (given["labels"] != mini.IGNORED).sum()
        with mini.autocast():
            loss = model(**given, num_items_in_batch=items)
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
