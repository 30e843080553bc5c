import torch
from lightning import Trainer as Lightning
from transformers import AutoModel, Trainer
from trl import PPOTrainer


class Own(Trainer):
    def train(self, epochs):
        return super().train()


class Mixed(Loud, Trainer):
    pass


class Trained(torch.nn.Module):
    pass


model = AutoModel.from_pretrained("m")
model.train()
Lightning().train()
PPOTrainer(config, model).train()
Own(model).train()
Mixed(model).train()
Trained().train()
if quick:
    trainer = Trainer(model)
else:
    trainer = build(model)
trainer.train()


def run(trainer):
    trainer.train()


with held(Trainer(model)) as other:
    other.train()
first, second = Trainer(model), 2
first.train()
