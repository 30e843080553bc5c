"""A sum of large numbers that cancel out: in float16 it is another number than in float32.

expects: loss-agreement (warning)
"""

import mini


class Cancelling(mini.Mini):
    def logits(self, input_ids):
        return 40 * (super().logits(input_ids) + 3000 - 3000)


model = mini.build(Cancelling())
mini.train(model)
