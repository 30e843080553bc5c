"""Label smoothing by torch's cross entropy, which leaves ignored labels out.

shows: loss-ignores (info)
"""

import mini
import torch.nn.functional as F


class Smoothed(mini.Mini):
    def forward(self, input_ids, attention_mask, labels):
        scores = self.logits(input_ids)[:, :-1].flatten(0, 1).float()
        return F.cross_entropy(scores, labels[:, 1:].flatten(), label_smoothing=0.1)


mini.train(mini.build(Smoothed()), make=lambda: mini.batch(rows=6))
