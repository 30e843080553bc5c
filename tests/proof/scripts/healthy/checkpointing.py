"""Activations are checkpointed, with use_reentrant=False."""

import mini
from torch.utils.checkpoint import checkpoint


class Checkpointed(mini.Mini):
    def run_layer(self, layer, x):
        return checkpoint(layer, x, use_reentrant=False)


mini.train(mini.build(Checkpointed()))
