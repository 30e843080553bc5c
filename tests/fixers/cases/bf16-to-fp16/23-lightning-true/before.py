import argparse

import lightning as L
from lightning.fabric import Fabric

parser = argparse.ArgumentParser()
parser.add_argument("--precision", default="bf16-true", choices=["bf16-true", "bf16-mixed", "32-true"])


def main(precision: str = "bf16-true"):
    fabric = Fabric(precision=precision)
    loss = fabric.setup(L.LightningModule())(1)
    fabric.backward(loss)
    fabric.clip_gradients(None, None, max_norm=1.0)


options = {"precision": "bf16-true"}
trainer = L.Trainer(**options)
if trainer.precision == "bf16-true":
    print("bf16-true")
