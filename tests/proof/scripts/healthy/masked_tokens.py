"""A masked language model predicts tokens at their own positions, most of which are masked in the input."""

import mini
import torch
import torch.nn.functional as F

MASKED = 63


class Filling(mini.Mini):
    def forward(self, input_ids, attention_mask, labels):
        return F.cross_entropy(self.logits(input_ids).flatten(0, 1).float(), labels.flatten())


def make():
    given = mini.batch(rows=8)
    tokens = given["input_ids"]
    chosen = (torch.rand(tokens.shape) < 0.3) & (given["attention_mask"] == 1)
    given["labels"] = tokens.masked_fill(~chosen, mini.IGNORED)
    given["input_ids"] = tokens.masked_fill(chosen & (torch.rand(tokens.shape) < 0.8), MASKED)
    return given


mini.train(mini.build(Filling()), make=make)
