import torch
from accelerate import Accelerator
from peft import get_peft_model
from transformers import AutoModel

accelerator = Accelerator()


def load():
    loaded = AutoModel.from_pretrained("m", device_map="auto")
    return loaded, 1


def train(model, reference, *, critic):
    model = get_peft_model(model, config)
    model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters())
    value = torch.optim.AdamW(critic.parameters())


def main():
    base = AutoModel.from_pretrained("m", device_map="auto")
    other = AutoModel.from_pretrained("m", device_map="auto")
    third = AutoModel.from_pretrained("m", device_map="auto")
    prepared = AutoModel.from_pretrained("m", device_map="auto")
    accelerator.prepare(prepared)
    train(base.train(), other, critic=third)


def in_evaluation_mode():
    return AutoModel.from_pretrained("m", device_map="auto").eval()
