"""Synthetic pictures of two blurred discs, and their noise."""

import math

import torch

SIDE, PATCH = 16, 4
PATCHES, PIXELS = (SIDE // PATCH) ** 2, PATCH * PATCH


def make_pictures(count: int, seed: int) -> torch.Tensor:
    """Return `count` pictures as patches, (count, patches, pixels), in -1..1."""
    dice = torch.Generator().manual_seed(seed)
    line = torch.arange(SIDE).float()
    centres = 3 + (SIDE - 6) * torch.rand(count, 2, 2, generator=dice)
    down = (line[:, None] - centres[:, :, :1, None]) ** 2
    along = (line[None, :] - centres[:, :, 1:, None]) ** 2
    discs = torch.exp(-(down + along) / 8).amax(dim=1) * 2 - 1
    tiles = discs.unfold(1, PATCH, PATCH).unfold(2, PATCH, PATCH)
    return tiles.reshape(count, PATCHES, PIXELS)


def add_noise(clean: torch.Tensor, time: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Return the picture with noise at `time` (0: none, 1: only noise); schedule of Nichol and Dhariwal (2021)."""
    angle = (time * math.pi / 2)[:, None, None]
    return angle.cos() * clean + angle.sin() * noise
