"""A Lightning module with precision 16-mixed, which Lightning replaces by bfloat16 without a card."""

import lightning
import torch
from torch import nn


class Lit(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4))

    def training_step(self, batch, at):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


lightning.seed_everything(7, verbose=False)
rows = [(torch.randn(16), at % 4) for at in range(64)]
trainer = lightning.Trainer(
    max_epochs=2, precision="16-mixed", accelerator="cpu", logger=False, enable_checkpointing=False
)
trainer.fit(Lit(), torch.utils.data.DataLoader(rows, 8))
