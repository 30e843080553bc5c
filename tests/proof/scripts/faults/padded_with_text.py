"""Half of each row is padding, and the labels of the padding are the padding id.

expects: labels-padding
"""

import mini


def make():
    given = mini.batch()
    given["attention_mask"][:, -6:] = 0
    given["input_ids"][:, -6:] = given["labels"][:, -6:] = mini.PAD
    return given


mini.train(mini.build(), make=make)
