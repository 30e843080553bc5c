import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.plain = nn.CrossEntropyLoss()
        self.weighted = nn.CrossEntropyLoss(weight=weight)

    def forward(self, x, y):
        logits = self.layers(x)
        return self.plain(logits.float(), y) + self.weighted(logits, y) + self.weighted(logits.float(), y)


class Loop:
    def __init__(self, weight):
        self.model = Classifier(weight).half()
        self.weighted = nn.CrossEntropyLoss(weight=weight if weight is None else weight.float())

    def loss(self, x, y):
        return self.weighted(self.model(x).float(), y)


criterion = nn.CrossEntropyLoss(weight=weight)
criterion.half()
loss = criterion(model(x), y)
