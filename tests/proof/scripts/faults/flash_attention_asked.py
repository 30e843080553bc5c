"""The model's config asks for FlashAttention 2, which needs capability 8.0.

expects: attention-backend
"""

from types import SimpleNamespace

import mini

model = mini.build()
model.config = SimpleNamespace(_attn_implementation="flash_attention_2")
mini.train(model)
