"""A layer of the base model is trained together with the adapter, in float32.

expects: trainable-set
"""

import mini

model = mini.build()
model.layers[1].out.float().requires_grad_(True)
mini.train(model)
