"""Labels are padded with 0 instead of -100.

expects: labels-padding
"""

import mini


def make():
    given = mini.batch()
    given["labels"] = given["labels"].masked_fill(given["attention_mask"] == 0, mini.PAD)
    return given


mini.train(mini.build(), make=make)
