"""The loss is multiplied by a weight of 0.

expects: loss-zero
"""

import mini


class Nothing(mini.Mini):
    def forward(self, **given):
        return 0.0 * super().forward(**given)


mini.train(mini.build(Nothing()))
