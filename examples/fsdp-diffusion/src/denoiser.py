"""A small transformer over patches that predicts the noise in a picture."""

import torch
from embeddings import PositionalEmbedding, TimeEmbedding
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """Attention over the patches, then a feed-forward layer for each patch. FSDP shards the model block by block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        batch, patches, width = hidden.shape
        split = self.qkv(self.before(hidden)).view(batch, patches, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(batch, patches, width)
        hidden = hidden + self.out(seen)
        return hidden + self.wide(self.between(hidden))


class Denoiser(nn.Module):
    """Predicts the noise of patches (batch, patches, pixels) at their time (batch,)."""

    def __init__(self, patches: int, pixels: int, width: int = 64, depth: int = 2) -> None:
        super().__init__()
        self.take = nn.Linear(pixels, width)
        self.position = PositionalEmbedding(patches, width)
        self.time = TimeEmbedding(width)
        self.blocks = nn.ModuleList(Block(width, heads=4) for _ in range(depth))
        self.give = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, pixels))

    def forward(self, noisy: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        hidden = self.position(self.take(noisy)) + self.time(time)
        for block in self.blocks:
            hidden = block(hidden)
        return self.give(hidden)
