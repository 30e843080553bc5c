"""A second head predicts the token after the next one.

shows: labels-aligned (info), loss-ignores (info)
"""

import mini
import torch.nn.functional as F
from torch import nn


class TwoHeads(mini.Mini):
    def __init__(self):
        super().__init__()
        self.second = nn.Linear(mini.WIDTH, mini.VOCABULARY)

    def forward(self, input_ids, attention_mask, labels):
        x = self.embedding(input_ids)
        for layer in self.layers:
            x = layer(x)
        heads = ((1, self.head), (2, self.second))
        return sum(
            F.cross_entropy(head(x)[:, :-ahead].flatten(0, 1).float(), labels[:, ahead:].flatten())
            for ahead, head in heads
        )


mini.train(mini.build(TwoHeads()))
