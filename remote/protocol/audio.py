"""Facts about the host's audio libraries."""

from __future__ import annotations

from typing import Tuple

from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class AudioFacts:
    """The major versions of FFmpeg whose shared libraries the dynamic loader finds."""

    ffmpeg: Tuple[int, ...] = ()
