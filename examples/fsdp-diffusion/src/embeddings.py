"""Embeddings of a patch's position and of its noise level."""

import math

import torch
from torch import nn


def sinusoids(values: torch.Tensor, width: int) -> torch.Tensor:
    """Return sines and cosines of (n,) positions at `width / 2` frequencies: (n, width), float32."""
    frequencies = torch.exp(-math.log(10_000) * torch.arange(width // 2, device=values.device) / (width // 2))
    angles = values.float()[:, None] * frequencies[None]
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class PositionalEmbedding(nn.Module):
    """Adds an embedding of its position to every patch."""

    def __init__(self, patches: int, width: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(torch.arange(patches), width), persistent=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + self.table.to(hidden.dtype)


class TimeEmbedding(nn.Module):
    """Embeds the noise level, (batch,) in 0..1, as one vector for all patches of a picture."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.net = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, time: torch.Tensor) -> torch.Tensor:
        return self.net(sinusoids(time * 1000, self.width).to(self.net[0].weight.dtype))[:, None]
