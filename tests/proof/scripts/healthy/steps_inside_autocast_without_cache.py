"""The whole loop is inside of one autocast, which keeps no cast weights."""

import mini
import torch

with torch.autocast("cpu", torch.float16, cache_enabled=False):
    mini.train(mini.build())
