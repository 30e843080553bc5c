import lightning as L
from pytorch_lightning import Trainer

a = L.Trainer(precision="16-mixed")
b = Trainer(precision="16-mixed")
c = Trainer(precision="16-mixed")
