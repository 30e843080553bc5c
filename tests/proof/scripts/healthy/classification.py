"""Each sequence has one class label, so every label counts and there is no prompt to mask."""

import mini
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = mini.build()
        self.head = nn.Linear(mini.VOCABULARY, 2)

    def forward(self, input_ids, attention_mask, labels):
        return nn.functional.cross_entropy(self.head(self.inside.logits(input_ids).mean(1)).float(), labels)


def make():
    given = mini.batch()
    return {**given, "labels": torch.tensor([0, 1, 1])}


mini.train(Classifier(), make=make)
