"""Hand-written label smoothing masks padding in the likelihood term, but not in the smoothing term.

expects: loss-ignores (error)
"""

import mini


class Smoothed(mini.Mini):
    def forward(self, input_ids, attention_mask, labels):
        logs = self.logits(input_ids)[:, :-1].float().log_softmax(-1)
        labels = labels[:, 1:]
        counted = labels != mini.IGNORED
        likelihood = logs.gather(-1, labels.clamp(min=0)[..., None])[..., 0].masked_fill(~counted, 0)
        return -(0.9 * likelihood + 0.1 * logs.mean(-1)).sum() / counted.sum()


mini.train(mini.build(Smoothed()), make=lambda: mini.batch(rows=6))
