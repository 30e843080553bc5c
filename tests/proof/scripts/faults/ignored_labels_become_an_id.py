"""The model replaces labels of -100 by the padding id, so the loss counts them.

expects: loss-ignores
"""

import mini


class Replacing(mini.Mini):
    def forward(self, input_ids, attention_mask, labels):
        return super().forward(input_ids, attention_mask, labels.masked_fill(labels == mini.IGNORED, mini.PAD))


mini.train(mini.build(Replacing()), make=lambda: mini.batch(rows=6))
