"""A float16 projector is trained together with the adapter.

expects: trainable-dtype, fp16-unscale
"""

import mini

model = mini.build()
model.head.requires_grad_(True)
mini.train(model)
