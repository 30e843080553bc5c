"""A multimodal model gets only text; zeros stand in for the audio features.

shows: inputs-vary (warning)
"""

import mini
import torch


class Hearing(mini.Mini):
    def forward(self, input_ids, attention_mask, labels, input_features):
        assert input_features.shape[-1] == 80
        return super().forward(input_ids, attention_mask, labels)


mini.train(mini.build(Hearing()), make=lambda: {**mini.batch(), "input_features": torch.zeros(3, 40, 80)})
