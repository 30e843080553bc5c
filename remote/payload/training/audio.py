"""Decoding audio files, and checking that a clip can be trained on."""

from __future__ import annotations

import io
from typing import Any, Optional, Tuple

import numpy as np
import soundfile

RATE = 16_000
SHORTEST_S = 0.1
LONGEST_S = 30.0
SILENCE = 1e-4


def decode(data: bytes) -> Tuple[Any, int]:
    """Return mono float32 samples in [-1, 1] and their rate. Raises ValueError if the bytes are not audio."""
    try:
        samples, rate = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise ValueError(f"cannot be decoded: {error}") from error
    return samples.mean(axis=1), int(rate)


def judge_clip(samples: Any, rate: int) -> Optional[str]:
    """Return why a clip cannot be trained on; None if it can."""
    seconds = len(samples) / rate
    if rate != RATE:
        return f"is sampled at {rate} Hz, wanted {RATE} (ffmpeg -i IN -ar {RATE} -ac 1 OUT)"
    if seconds < SHORTEST_S:
        return f"lasts {seconds:.2f} s, wanted at least {SHORTEST_S} s"
    if seconds > LONGEST_S:
        return f"lasts {seconds:.1f} s, wanted at most {LONGEST_S:.0f} s"
    if not np.isfinite(samples).all():
        return "has samples that are not finite"
    if float(np.sqrt(np.mean(np.square(samples, dtype=np.float64)))) < SILENCE:
        return "is silent"
    return None
