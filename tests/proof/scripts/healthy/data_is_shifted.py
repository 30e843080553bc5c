"""The data set yields each token with its successor; the model does not shift labels.

shows: labels-aligned (info)
"""

import mini
import torch
import torch.nn.functional as F


class Unshifted(mini.Mini):
    def forward(self, x, y):
        scores = self.logits(x)
        return scores, F.cross_entropy(scores.flatten(0, 1).float(), y.flatten())


torch.manual_seed(7)
model = Unshifted()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for _ in range(30):
    tokens = torch.randint(1, mini.VOCABULARY, (4, 17))
    _, loss = model(tokens[:, :-1], tokens[:, 1:])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
