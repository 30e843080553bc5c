"""Large numbers cancel out in a sum, so the float16 result differs from the float32 result.

expects: loss-agreement (warning)
"""

import mini


class Cancelling(mini.Mini):
    def logits(self, input_ids):
        return 40 * (super().logits(input_ids) + 3000 - 3000)


model = mini.build(Cancelling())
mini.train(model)
