import argparse

import lightning as L
from lightning.fabric import Fabric

parser = argparse.ArgumentParser()
parser.add_argument("--precision", default="16-mixed", choices=["bf16-true", "16-mixed", "bf16-mixed", "32-true"])


def main(precision: str = "16-mixed"):
    fabric = Fabric(precision=precision)
    loss = fabric.setup(L.LightningModule())(1)
    fabric.backward(loss)
    fabric.clip_gradients(None, None, max_norm=1.0)


options = {"precision": "16-mixed"}
trainer = L.Trainer(**options)
if trainer.precision == "bf16-true":
    print("bf16-true")
