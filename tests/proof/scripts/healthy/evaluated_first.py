"""The loss is computed once without gradients before the first training step."""

import mini
import torch

model = mini.build().eval()
with torch.no_grad(), mini.autocast():
    print("before", float(model(**mini.batch())))
mini.train(model.train())
