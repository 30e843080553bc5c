"""Facts about the host's audio libraries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple


@dataclass(frozen=True)
class AudioFacts:
    """The major versions of FFmpeg whose shared libraries the dynamic loader finds."""

    ffmpeg: Tuple[int, ...] = ()
