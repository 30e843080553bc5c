import wandb
from transformers import Trainer


def objective():
    Trainer(model=fresh(), args=args).train()


wandb.agent("sweep", function=objective)
