"""The model's config selects FlashAttention 2, which needs compute capability 8.0.

expects: attention-backend
"""

from types import SimpleNamespace

import mini

model = mini.build()
model.config = SimpleNamespace(_attn_implementation="flash_attention_2")
mini.train(model)
