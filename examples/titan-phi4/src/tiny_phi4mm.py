"""A Phi-4-multimodal that is small enough for a CPU.

As in the real one, speech and vision adapters are in the checkpoint.
"""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional as F

MELS = 40


class LoraLinear(nn.Module):
    """A frozen projection and its adapters, which are in the checkpoint and not managed by PEFT."""

    def __init__(self, width_in: int, width_out: int, rank: int, alpha: int) -> None:
        super().__init__()
        self.base_layer = nn.Linear(width_in, width_out, bias=False)
        self.lora_A = nn.ModuleDict({name: nn.Linear(width_in, rank, bias=False) for name in ("speech", "vision")})
        self.lora_B = nn.ModuleDict({name: nn.Linear(rank, width_out, bias=False) for name in ("speech", "vision")})
        self.scaling = alpha / rank
        self.active = "speech"
        for adapter in self.lora_B.values():
            nn.init.normal_(adapter.weight, std=0.002)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        adapted = self.lora_B[self.active](self.lora_A[self.active](states))
        return self.base_layer(states) + adapted * self.scaling


class Layer(nn.Module):
    """Attention and a feed-forward network, each after a normalisation."""

    def __init__(self, width: int, heads: int, rank: int, alpha: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv_proj = LoraLinear(width, 3 * width, rank, alpha)
        self.o_proj = LoraLinear(width, width, rank, alpha)
        self.up_proj = LoraLinear(width, 4 * width, rank, alpha)
        self.down_proj = LoraLinear(4 * width, width, rank, alpha)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        batch, length, width = states.shape
        parts = self.qkv_proj(self.norm1(states)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        states = states + self.o_proj(seen.transpose(1, 2).reshape(batch, length, width))
        return states + self.down_proj(F.gelu(self.up_proj(self.norm2(states))))


class TinyPhi4MM(nn.Module):
    """Audio frames and text in one causal sequence; the loss counts only positions with a label."""

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, rank: int, alpha: int) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.audio_encoder = nn.Sequential(nn.Linear(MELS, width), nn.GELU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(Layer(width, heads, rank, alpha) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    @classmethod
    def from_checkpoint(cls, folder: Path, *, rank: int, alpha: int) -> "TinyPhi4MM":
        """Return the model.

        Its weights are generated from the checkpoint's seed, which saves 4 MB in the repository.
        """
        config = json.loads((folder / "config.json").read_text())
        torch.manual_seed(config.pop("seed"))
        return cls(**config, rank=rank, alpha=alpha)

    def set_lora_adapter(self, name: str) -> None:
        """Use and train the adapter `name`, and freeze everything else."""
        for module in self.modules():
            if isinstance(module, LoraLinear):
                module.active = name
        for key, parameter in self.named_parameters():
            parameter.requires_grad = f"lora_A.{name}." in key or f"lora_B.{name}." in key

    def forward(self, input_ids: torch.Tensor, input_audio: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            frames = self.audio_encoder(input_audio)
        words = self.embed_tokens(input_ids)
        states = torch.cat([frames.to(words.dtype), words], dim=1)
        for layer in self.layers:
            states = layer(states)
        logits = self.lm_head(self.norm(states[:, frames.shape[1] :]))
        return F.cross_entropy(logits[:, :-1].float().flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)


class Phi4MMProcessor:
    """Converts text and audio to tensors.

    Its arguments are those of the model's remote code: `audios=[(array, rate)]`.
    """

    def __init__(self, folder: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def __call__(self, text: str, audios: list[tuple[torch.Tensor, int]]) -> dict[str, torch.Tensor]:
        (frames, rate), *others = audios
        if others or rate != 16000:
            raise ValueError(f"one clip at 16000 Hz is wanted, got {len(audios)} at {rate} Hz")
        return {"input_ids": torch.tensor(self.tokenizer.encode(text).ids), "input_audio": frames}
