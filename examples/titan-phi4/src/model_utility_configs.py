"""Named run settings, the dtype of a run, and the loading of the base checkpoint in that dtype."""

from dataclasses import dataclass
from pathlib import Path

import torch
from tiny_phi4mm import TinyPhi4MM

ENCODER_DTYPE = torch.bfloat16


@dataclass(frozen=True)
class RunSettings:
    """The settings of one named run. `rank` must be the rank of the adapters in the checkpoint."""

    rank: int
    alpha: int
    learning_rate: float
    batch_size: int
    accumulation: int
    epochs: int
    seed: int = 42


RUNS = {
    "paper_r64": RunSettings(rank=64, alpha=128, learning_rate=3e-3, batch_size=4, accumulation=2, epochs=8),
}


def compute_dtype(bf16: bool) -> torch.dtype:
    """Return bfloat16 if it was requested and the card supports it, otherwise float16."""
    return torch.bfloat16 if bf16 and torch.cuda.is_bf16_supported() else torch.float16


def load_model(checkpoint: Path, run: RunSettings, dtype: torch.dtype, device: str) -> TinyPhi4MM:
    """Return the checkpoint's model, with a trainable speech adapter and everything else frozen."""
    model = TinyPhi4MM.from_checkpoint(checkpoint, rank=run.rank, alpha=run.alpha)
    model.set_lora_adapter("speech")
    model = model.to(device, dtype=dtype)
    model.audio_encoder.to(ENCODER_DTYPE)
    return model


def allow_tf32(wanted: bool) -> None:
    """Raise the error that transformers raises if the card does not support TF32."""
    if not wanted:
        return
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 0):
        raise ValueError("--tf32 requires Ampere or a newer GPU arch, cuda>=11 and torch>=1.7")
    torch.backends.cuda.matmul.allow_tf32 = True
