"""The whole training loop is inside one autocast block with cache_enabled=False."""

import mini
import torch

with torch.autocast("cpu", torch.float16, cache_enabled=False):
    mini.train(mini.build())
