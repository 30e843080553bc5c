import torch
from lightning.fabric import Fabric

fabric = Fabric(precision="bf16-true")
model = fabric.setup(torch.nn.Linear(1, 1))
fabric.backward(model(torch.ones(1)).sum())
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
