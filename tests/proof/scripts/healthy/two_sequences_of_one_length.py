"""The attention mask belongs to the encoder's input, which happens to be as long as the labels."""

import mini
import torch


class Translating(mini.Mini):
    def forward(self, input_ids, attention_mask, labels):
        scores = self.logits(input_ids).float()
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten())


def make():
    given = mini.batch(rows=6)
    return {**given, "labels": torch.randint(1, mini.VOCABULARY, given["input_ids"].shape)}


mini.train(mini.build(Translating()), make=make)
