"""Audio changes the hidden states, padding is masked, and half precision agrees with float32.

shows: audio-used (info), padding-agreement (info), loss-agreement (info)
"""

import mini
import torch
from torch import nn


class Hearing(mini.Mini):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(80, mini.WIDTH).requires_grad_(False)

    def forward(self, input_ids, attention_mask, labels, input_features):
        self.heard = self.encoder(input_features).mean(1, keepdim=True)
        return super().forward(input_ids, attention_mask, labels)

    def run_layer(self, layer, x):
        return layer(x + self.heard)


mini.train(mini.build(Hearing()), make=lambda: {**mini.batch(), "input_features": torch.randn(3, 40, 80)})
