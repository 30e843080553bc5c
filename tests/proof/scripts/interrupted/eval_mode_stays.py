"""After an evaluation, the model stays in eval mode.

expects: train-mode
"""

import mini
import torch
from torch import nn

model = mini.build()
model.head = nn.Sequential(nn.Dropout(0.1), model.head)
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
mini.train(model, optimizer=optimizer, steps=5)
with torch.no_grad(), mini.autocast():
    print("evaluated", float(model.eval()(**mini.batch())))
mini.train(model, optimizer=optimizer, steps=8)
