"""The loss scale starts at 16 and is halved in every step, because gradients overflow at any scale.

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
