"""The model is left in eval mode after a first evaluation.

expects: train-mode
"""

import mini

mini.train(mini.build().eval())
