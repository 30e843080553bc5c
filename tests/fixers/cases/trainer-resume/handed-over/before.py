import fire
from trl import DPOTrainer


def train(beta=0.1):
    DPOTrainer(model=model, args=args(beta)).train()


fire.Fire(train)
