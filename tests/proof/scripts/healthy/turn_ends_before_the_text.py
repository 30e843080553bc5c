"""In a chat template, each answer ends with a learnt marker; the end-of-text token after it is only padding.

shows: labels-end (info)
"""

import mini

MARKER, END = 62, mini.PAD


def make():
    given = mini.batch(rows=6)
    for row in range(6):
        end = 15 - row
        given["input_ids"][row, end], given["labels"][row, end] = END, mini.IGNORED
        given["input_ids"][row, end - 1] = given["labels"][row, end - 1] = MARKER
        given["attention_mask"][row, end] = 1
    return given


mini.train(mini.build(), make=make)
