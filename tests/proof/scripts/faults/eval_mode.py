"""The model is left in eval mode after a first evaluation.

expects: train-mode
"""

import mini
from torch import nn

model = mini.build()
model.head = nn.Sequential(nn.Dropout(0.1), model.head)
mini.train(model.eval())
