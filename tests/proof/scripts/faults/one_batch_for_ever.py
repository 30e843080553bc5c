"""Each step creates a new iterator and takes its first batch.

expects: inputs-vary
"""

import mini

BATCHES = [mini.batch() for _ in range(8)]

mini.train(mini.build(), make=lambda: next(iter(BATCHES)))
