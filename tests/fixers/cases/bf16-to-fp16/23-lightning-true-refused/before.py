import torch
from lightning import Trainer
from lightning.fabric import Fabric
from lightning.pytorch.plugins import HalfPrecision

fabric = Fabric(precision="bf16-true")
trainer = Trainer(plugins=[HalfPrecision("bf16-true")])
other = Trainer(precision="bf16" "-true")
loss = fabric.setup(torch.nn.Linear(1, 1))(torch.ones(1)).sum()
loss.backward()
