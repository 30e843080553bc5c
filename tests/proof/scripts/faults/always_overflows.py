"""Every gradient is infinite, so each step overflows at any loss scale.

expects: scaler-trajectory
"""

import mini
import torch


class Overflowing(mini.Mini):
    def logits(self, input_ids):
        scores = super().logits(input_ids)
        scores.register_hook(lambda gradient: torch.full_like(gradient, float("inf")))
        return scores


mini.train(mini.build(Overflowing()))
