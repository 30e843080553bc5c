"""The whole data set fits into one batch and is memorised.

shows: inputs-vary (warning)
"""

import mini

ALL = mini.batch(rows=6)

mini.train(mini.build(), make=lambda: ALL)
