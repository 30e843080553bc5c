import torch
from torch.nn import BCEWithLogitsLoss, CrossEntropyLoss, Module, MSELoss


def forward(self, logits, labels, kind):
    logits = logits.half()
    if kind == "regression":
        loss_fct = MSELoss()
        return loss_fct(logits, labels)
    if kind == "one":
        loss_fct = CrossEntropyLoss()
        return loss_fct(logits, labels)
    loss_fct = BCEWithLogitsLoss()
    return loss_fct(logits, labels)


class Two(Module):
    def __init__(self, kind):
        if kind:
            self.loss = MSELoss()
        else:
            self.loss = CrossEntropyLoss()
        self.half()

    def forward(self, x, y):
        x = self.layers(x)
        return self.loss(x, y)
