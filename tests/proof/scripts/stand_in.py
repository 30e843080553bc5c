"""Raises the errors of a card on a machine without one, for the same calls that cause them on the card."""

import torch
from transformers import AutoModelForCausalLM

UNSET = object()
FLASH = "flash_attention_2"


class Loaded(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4, dtype=dtype)

    def forward(self, x):
        return self.layer(x.to(self.layer.weight.dtype))


def refuse(kind, message, *, dtype=UNSET, attention=UNSET, device_map=UNSET):
    """Loading a causal language model raises `kind(message)` for one of that dtype, attention or device map."""

    refused = (dtype, attention, device_map)

    def from_pretrained(name, *, dtype=torch.float32, attn_implementation="sdpa", device_map=None):
        if any(bad == given for bad, given in zip(refused, (dtype, attn_implementation, device_map), strict=True)):
            raise kind(message)
        return Loaded(dtype)

    AutoModelForCausalLM.from_pretrained = from_pretrained


def train(model):
    """Take one minimal optimizer step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(2, 4)).float().pow(2).mean().backward()
    optimizer.step()
    print("trained")
