"""A cache of clips' features. The key is the digest of the audio bytes and of the extractor's settings."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from typing import Any, Optional

import numpy as np
import torch

from remote.protocol.dataclass import dataclass

VERSION = 1


@dataclass(frozen=True)
class Clip:
    """The features of one clip: `values` (frames, bins) in float32, padded with `fill` beyond the first `valid` frames.

    `tokens` is the number of placeholder tokens of the clip in a prompt.
    """

    values: torch.Tensor
    valid: int
    tokens: int
    fill: float = 0.0


@dataclass(frozen=True)
class FeatureCache:
    """The cached clips under `folder`. A truncated or changed entry is ignored."""

    folder: str
    extractor: str

    def path(self, audio: bytes) -> str:
        """Return the path of the entry for these audio bytes and this extractor's settings."""
        key = hashlib.sha256(f"{VERSION}:{self.extractor}:".encode() + audio).hexdigest()
        return os.path.join(self.folder, key[:2], key)

    def read(self, audio: bytes) -> Optional[Clip]:
        """Return the cached clip for these audio bytes, or None if there is no intact entry."""
        try:
            with open(self.path(audio), "rb") as file:
                head = json.loads(file.readline())
                body = file.read()
        except (FileNotFoundError, ValueError):
            return None
        if not isinstance(head, dict) or hashlib.sha256(body).hexdigest() != head.get("sha256"):
            return None
        values = np.frombuffer(body, dtype=np.float32).reshape(head["shape"]).copy()
        return Clip(torch.from_numpy(values), head["heard"], head["tokens"], head["fill"])

    def write(self, audio: bytes, clip: Clip) -> None:
        """Store the clip atomically."""
        body = clip.values.numpy().astype(np.float32).tobytes()
        head = {
            "sha256": hashlib.sha256(body).hexdigest(),
            "shape": list(clip.values.shape),
            "heard": clip.valid,
            "tokens": clip.tokens,
            "fill": clip.fill,
        }
        path = self.path(audio)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        handle, part = tempfile.mkstemp(dir=os.path.dirname(path))
        with os.fdopen(handle, "wb") as file:
            file.write(json.dumps(head).encode() + b"\n" + body)
        os.replace(part, path)


def extractor_settings(family: str, extractor: Any) -> str:
    """Return the settings that determine a clip's features, as text: model family and extractor settings."""
    return family + type(extractor).__name__ + json.dumps(extractor.to_dict(), sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)
