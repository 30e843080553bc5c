"""Prompt masking took the answer too.

expects: labels-masked, loss-finite
"""

import mini

mini.train(mini.build(), make=lambda: mini.batch(prompt=16))
