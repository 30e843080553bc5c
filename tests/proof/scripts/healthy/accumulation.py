"""Each optimizer step has four micro-batches; the loss is divided by the number of labels in all of them."""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
scaler = mini.scaler()
for _ in range(30):
    batches = [mini.batch() for _ in range(4)]
    items = sum((given["labels"] != mini.IGNORED).sum() for given in batches)
    for given in batches:
        with mini.autocast():
            loss = model(**given, num_items_in_batch=items)
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
