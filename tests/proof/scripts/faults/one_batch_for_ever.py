"""The loop takes the first batch of a new iterator in each step.

expects: inputs-vary
"""

import mini

BATCHES = [mini.batch() for _ in range(8)]

mini.train(mini.build(), make=lambda: next(iter(BATCHES)))
