"""The end-of-text token is also the padding; labels are masked by row length, so the end of text is learnt.

shows: labels-end (info)
"""

import mini

END = mini.PAD


def make():
    given = mini.batch(rows=6)
    for row in range(6):
        given["labels"][row, 15 - row] = given["input_ids"][row, 15 - row] = END
        given["attention_mask"][row, 15 - row] = 1
    return given


mini.train(mini.build(), make=make)
