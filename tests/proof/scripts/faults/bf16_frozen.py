"""dtype="auto" loaded a frozen part in bfloat16.

expects: bf16-left
"""

import mini
import torch

model = mini.build()
model.embedding.to(torch.bfloat16)
mini.train(model)
