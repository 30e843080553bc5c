"""Pretraining on chunks of a long text, padded at the end: no chunk needs an end-of-text token."""

import mini


def make():
    given = mini.batch(rows=4)
    given["labels"] = given["input_ids"].masked_fill(given["attention_mask"] == 0, mini.IGNORED)
    return given


mini.train(mini.build(), make=make)
