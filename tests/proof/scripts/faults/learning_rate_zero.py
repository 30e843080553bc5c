"""The learning rate is 0.

expects: learning-rate
"""

import mini
import torch

model = mini.build()
mini.train(model, optimizer=torch.optim.AdamW(mini.trained(model), lr=0.0))
