"""float16 autocast without loss scaling.

expects: scaler
"""

import mini
import torch

model = mini.build()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for _ in range(30):
    with mini.autocast():
        loss = model(**mini.batch())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
