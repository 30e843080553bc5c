"""The output of a frozen layer exceeds 65504, the largest float16 number.

expects: activation-finite, loss-finite
"""

import mini

model = mini.build()
model.layers[0].out.weight.data.fill_(60000.0)
mini.train(model)
