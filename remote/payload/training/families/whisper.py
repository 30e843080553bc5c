"""Features for the families with Whisper's encoder, and the encoder part of their tiny checkpoints."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch
import transformers

from remote.payload.training.audio import RATE
from remote.payload.training.families.audio_model import padded
from remote.payload.training.features import Clip

WINDOW_S = 5
"""The window of the tiny models in seconds. Real models have 30 s."""
BINS = 64
ENCODER = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2")
DECODER = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def read_extractor(source: str, **hub_kwargs: Any) -> Any:
    """Load Whisper's feature extractor with the settings of the checkpoint."""
    return transformers.WhisperFeatureExtractor.from_pretrained(source, **hub_kwargs)


def window_s(extractor: Any) -> Optional[float]:
    """Return the encoder's window in seconds. The extractor cuts off longer audio."""
    return float(extractor.chunk_length)


def extract_window(extractor: Any, samples: Any) -> Clip:
    """Extract the frames up to the last frame that differs from the fill value. `pad_window` restores the window."""
    made = extractor(samples, sampling_rate=RATE, return_attention_mask=True, padding="max_length", return_tensors="pt")
    values = made["input_features"][0].T.float()
    valid = int(made["attention_mask"][0].sum())
    fill = float(values[-1, 0])
    filled = (values != fill).any(dim=1).nonzero()
    kept = max(valid, int(filled.max()) + 1 if len(filled) else 0)
    return Clip(values[:kept].clone(), valid, pooled(valid), fill)


def pooled(frames: int) -> int:
    """Return the number of embeddings for `frames` frames: a convolution of stride 2, then an average of two."""
    return (((frames - 1) // 2 + 1) - 2) // 2 + 1


def pad_window(extractor: Any, clips: List[Clip], mask: str) -> Dict[str, torch.Tensor]:
    """Return the clips padded to whole windows, with a mask of the valid frames under the key `mask`."""
    window = int(extractor.nb_max_frames)
    valid = torch.tensor([clip.valid for clip in clips])
    return {
        "input_features": torch.stack([padded(clip, window).T for clip in clips]),
        mask: (torch.arange(window)[None, :] < valid[:, None]).long(),
    }


def tiny_extractor(window: int = WINDOW_S) -> Any:
    """Return the feature extractor of the tiny models."""
    return transformers.WhisperFeatureExtractor(feature_size=BINS, chunk_length=window, return_attention_mask=True)


def tiny_encoder(extractor: Any) -> Dict[str, Any]:
    """Return the encoder settings of the tiny models."""
    return {
        "num_mel_bins": BINS,
        "d_model": 96,
        "encoder_layers": 2,
        "encoder_attention_heads": 4,
        "encoder_ffn_dim": 192,
        "max_source_positions": extractor.nb_max_frames // 2,
    }
