"""Rows are padded on the left, and the model attends to the padding.

expects: padding-agreement (warning)
"""

import mini


def make():
    given = mini.batch(rows=6)
    return {name: value.flip(1) for name, value in given.items()}


mini.train(mini.build(), make=make)
