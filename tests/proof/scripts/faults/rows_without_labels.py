"""Long prompts are truncated before the answer begins, so half of the rows have no label.

expects: labels-masked
"""

import mini


def make():
    given = mini.batch(rows=4)
    given["labels"][::2] = mini.IGNORED
    return given


mini.train(mini.build(), make=make)
