"""After each step, the trained weights are cast to half precision to compute a loss, and cast back.

expects: weights-between (warning)
"""

import mini
import torch

torch.manual_seed(7)
model = mini.Mini()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for _ in range(30):
    model(**mini.batch()).backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad(), mini.autocast():
        print("evaluated", float(model.half()(**mini.batch())))
    model.float()
