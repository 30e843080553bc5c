"""Lightning validates every few steps and saves a checkpoint after each validation."""

import lightning
import torch
from torch import nn


class Lit(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.1), nn.GELU(), nn.Linear(16, 4))

    def training_step(self, batch, at):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def validation_step(self, batch, at):
        self.log("loss", self.training_step(batch, at))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


lightning.seed_everything(7, verbose=False)
rows = [(torch.randn(16), at % 4) for at in range(64)]
loader = torch.utils.data.DataLoader(rows, 8)
trainer = lightning.Trainer(
    max_epochs=3, accelerator="cpu", logger=False, val_check_interval=4, enable_progress_bar=False, default_root_dir="."
)
trainer.fit(Lit(), loader, loader)
