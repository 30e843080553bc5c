"""A look at the loss before the first step, without gradients."""

import mini
import torch

model = mini.build().eval()
with torch.no_grad(), mini.autocast():
    print("before", float(model(**mini.batch())))
mini.train(model.train())
