"""In addition to the labels, a teacher's outputs are the targets at every position, padding included.

shows: loss-ignores (info)
"""

import mini
import torch
import torch.nn.functional as F

teacher = mini.build().eval()


class Student(mini.Mini):
    def forward(self, input_ids, attention_mask, labels):
        scores = self.logits(input_ids)[:, :-1].float()
        with torch.no_grad():
            wanted = teacher.logits(input_ids)[:, :-1].float().softmax(-1)
        followed = F.kl_div(scores.log_softmax(-1), wanted, reduction="batchmean")
        return followed + F.cross_entropy(scores.flatten(0, 1), labels[:, 1:].flatten())


model = mini.build(Student())
torch.nn.init.normal_(model.head.weight, std=0.5)
mini.train(model)
