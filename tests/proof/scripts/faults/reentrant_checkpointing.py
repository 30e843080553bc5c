"""Under reentrant checkpointing with frozen embeddings, adapters inside get no gradient; only a trained head does.

expects: adapter-gradient, checkpoint-reentrant, none-inputs-grad
"""

import mini
from torch.utils.checkpoint import checkpoint


class Checkpointed(mini.Mini):
    def run_layer(self, layer, x):
        return checkpoint(layer, x, use_reentrant=True)


model = mini.build(Checkpointed())
model.head.requires_grad_(True)
model.head.float()
mini.train(model)
