"""Predicts a mel spectrogram from phones: an encoder, a duration for each phone, a decoder over frames."""

import torch
from torch import nn
from torch.nn import functional as F
from utterances import BINS, PHONES


class AcousticModel(nn.Module):
    """Encodes the phones, repeats each encoding for the duration of its phone, and decodes the frames."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(PHONES, width, padding_idx=0)
        self.encode = nn.Conv1d(width, width, 3, padding=1)
        self.length = nn.Linear(width, 1)
        self.decode = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, BINS))

    def forward(self, phones: torch.Tensor, durations: torch.Tensor, frames: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log durations (batch, phones) and the mel spectrogram (batch, frames, bins)."""
        hidden = self.embed(phones)
        hidden = hidden + F.gelu(self.encode(hidden.transpose(1, 2))).transpose(1, 2)
        return self.length(hidden).squeeze(-1), self.decode(stretch(hidden, durations, frames))


def stretch(hidden: torch.Tensor, durations: torch.Tensor, frames: int) -> torch.Tensor:
    """Repeat (batch, phones, width) by the durations: (batch, frames, width), padded with zeros."""
    ends = durations.cumsum(dim=1)[..., None]
    frame = torch.arange(frames, device=hidden.device)
    inside = (frame >= ends - durations[..., None]) & (frame < ends)
    return inside.to(hidden.dtype).transpose(1, 2) @ hidden


def tts_loss(lengths: torch.Tensor, predicted: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the loss of the spectrogram and the log durations; padding does not count."""
    spoken = batch["durations"] > 0
    frames = batch["durations"].sum(dim=1)[:, None] > torch.arange(predicted.shape[1], device=predicted.device)
    mel = (predicted.float() - batch["mel"]).abs().mean(dim=-1)[frames].mean()
    return mel + 0.1 * (lengths.float() - batch["durations"].clamp(min=1).log())[spoken].square().mean()
