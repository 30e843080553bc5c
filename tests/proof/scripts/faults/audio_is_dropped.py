"""The model encodes the audio, but the prompt has no placeholder tokens, so the result is never used.

expects: audio-used (warning)
"""

import mini
import torch
from torch import nn


class Hearing(mini.Mini):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(80, mini.WIDTH).requires_grad_(False)

    def forward(self, input_ids, attention_mask, labels, input_features):
        self.heard = self.encoder(input_features)
        return super().forward(input_ids, attention_mask, labels)


mini.train(mini.build(Hearing()), make=lambda: {**mini.batch(), "input_features": torch.randn(3, 40, 80)})
