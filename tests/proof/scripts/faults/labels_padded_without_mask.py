"""Labels are padded with the padding id instead of -100, and no attention mask is passed.

expects: labels-padding
"""

import mini


def make():
    given = mini.batch(prompt=0)
    del given["attention_mask"]
    given["labels"] = given["input_ids"].clone()
    given["labels"][:, -6:] = mini.PAD
    return given


mini.train(mini.build(), make=make)
