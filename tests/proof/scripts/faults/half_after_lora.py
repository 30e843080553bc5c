"""The whole model is cast to half precision after the adapter was attached.

expects: trainable-dtype, fp16-unscale
"""

import mini

mini.train(mini.build().half())
