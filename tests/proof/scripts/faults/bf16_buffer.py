"""A buffer was left in bfloat16.

expects: bf16-left
"""

import mini
import torch

model = mini.build()
model.register_buffer("positions", torch.zeros(16, dtype=torch.bfloat16))
mini.train(model)
