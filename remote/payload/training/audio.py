"""Decode audio files to 16 kHz mono, and check whether a clip can be trained on."""

from __future__ import annotations

import io
from typing import Any, Optional, Tuple

import numpy as np
import soundfile

RATE = 16_000
SILENCE = 1e-4


def decode(data: bytes) -> Tuple[Any, int]:
    """Return mono float32 samples in [-1, 1] and their rate. Raises ValueError if the bytes are not audio."""
    try:
        samples, rate = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise ValueError(f"cannot be decoded: {error}") from error
    return samples.mean(axis=1), int(rate)


def resample(samples: Any, rate: int) -> Any:
    """Return the samples at 16 kHz. Raises ValueError if they have another rate and soxr is not installed."""
    if rate == RATE:
        return samples
    try:
        import soxr  # noqa: PLC0415 - only data of another sample rate needs soxr
    except ImportError:
        raise ValueError(f"is sampled at {rate} Hz, and soxr, which resamples to {RATE} Hz, is not installed") from None
    return soxr.resample(samples, rate, RATE, quality="HQ")


def judge_clip(samples: Any, shortest_s: float, longest_s: float) -> Optional[str]:
    """Return why a clip at 16 kHz cannot be trained on, or None if it can be trained on."""
    seconds = len(samples) / RATE
    if seconds < shortest_s:
        return f"lasts {seconds:.2f} s, wanted at least {shortest_s:g} s"
    if seconds > longest_s:
        return f"lasts {seconds:.1f} s, wanted at most {longest_s:g} s"
    if not np.isfinite(samples).all():
        return "has samples that are not finite"
    if float(np.sqrt(np.mean(np.square(samples, dtype=np.float64)))) < SILENCE:
        return "is silent"
    return None
