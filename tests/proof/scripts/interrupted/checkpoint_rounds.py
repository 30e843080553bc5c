"""To save a checkpoint, the model itself is cast to half precision and back.

expects: weights-between
"""

import mini
import torch

torch.manual_seed(7)
model = mini.Mini()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
mini.train(model, optimizer=optimizer, steps=5)
torch.save(model.half().state_dict(), "model.pt")
model.float()
mini.train(model, optimizer=optimizer, steps=8)
