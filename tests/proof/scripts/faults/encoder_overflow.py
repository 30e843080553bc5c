"""A frozen layer gives numbers beyond 65504.

expects: activation-finite, loss-finite
"""

import mini

model = mini.build()
model.layers[0].out.weight.data.fill_(60000.0)
mini.train(model)
