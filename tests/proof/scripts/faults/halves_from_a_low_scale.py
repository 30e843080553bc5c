"""A scale of 16 is halved in every step: gradients overflow at any scale.

expects: scaler-trajectory, proof-short
"""

import mini
import torch


class Overflowing(mini.Mini):
    def logits(self, input_ids):
        scores = super().logits(input_ids)
        scores.register_hook(lambda gradient: torch.full_like(gradient, float("inf")))
        return scores


mini.train(mini.build(Overflowing()), scale=16.0)
