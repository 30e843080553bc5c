"""A teacher, and a student with experts and a router that weights their outputs."""

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, CLASSES = 32, 10


class Teacher(nn.Module):
    """A frozen model with random weights from a seed."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, 64), nn.Tanh())
        self.head = nn.Linear(64, CLASSES)

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.body(inputs)
        return self.head(hidden) * 8, hidden


class Student(nn.Module):
    """Frozen experts, and a trained router and head, each of which casts its input to its own dtype."""

    def __init__(self, experts: int = 6) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(WIDTH, 64) for _ in range(experts))
        self.router = nn.Linear(WIDTH, experts)
        self.router_bias = nn.Parameter(torch.zeros(experts))
        self.mix = nn.Linear(64, 64)
        self.head = nn.Linear(64, CLASSES)
        self.experts.requires_grad_(False)

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shares = F.softmax(self.router(inputs.to(self.router.weight.dtype)) + self.router_bias, dim=-1)
        answers = torch.stack([torch.tanh(expert(inputs)) for expert in self.experts], dim=-2)
        mixed = (shares.unsqueeze(-1) * answers).sum(dim=-2)
        hidden = torch.tanh(self.mix(mixed.to(self.mix.weight.dtype)))
        return self.head(hidden) * 8, hidden
