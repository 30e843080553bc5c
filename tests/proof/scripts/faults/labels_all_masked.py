"""The mask of the prompt also covers the answer, so every label is -100.

expects: labels-masked, loss-finite
"""

import mini

mini.train(mini.build(), make=lambda: mini.batch(prompt=16))
