"""The end-of-text token is also the padding token, and the collator masks every label with that id.

expects: labels-end (error)
"""

import mini

END = mini.PAD


def make():
    given = mini.batch(rows=6)
    for row in range(6):
        given["input_ids"][row, 15 - row] = END
        given["attention_mask"][row, 15 - row] = 1
    given["labels"][given["input_ids"] == END] = mini.IGNORED
    return given


mini.train(mini.build(), make=make)
