import lightning as L
from pytorch_lightning import Trainer

a = L.Trainer(precision="bf16-mixed")
b = Trainer(precision="bf16")
c = Trainer(precision="bf16-true")
