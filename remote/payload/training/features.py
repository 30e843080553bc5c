"""A clip's features, computed once: kept by the digest of its bytes and of the extractor's settings."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
import torch

VERSION = 1


@dataclass(frozen=True)
class Clip:
    """`values` (frames, bins) float32, of which the first `heard` hold sound; beyond them a longer batch has `fill`.

    `tokens` is how many placeholders stand for the clip in a text.
    """

    values: torch.Tensor
    heard: int
    tokens: int
    fill: float = 0.0


@dataclass(frozen=True)
class FeatureCache:
    """Clips under `folder`. An entry that is cut short or changed is as good as none."""

    folder: str
    extractor: str

    def path(self, audio: bytes) -> str:
        """Where the clip of these bytes lies, for this extractor's settings."""
        key = hashlib.sha256(f"{VERSION}:{self.extractor}:".encode() + audio).hexdigest()
        return os.path.join(self.folder, key[:2], key)

    def read(self, audio: bytes) -> Optional[Clip]:
        """The clip kept for these bytes, None where there is none that is whole."""
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
        """The clip is kept; a reader sees all of it or nothing."""
        body = clip.values.numpy().astype(np.float32).tobytes()
        head = {
            "sha256": hashlib.sha256(body).hexdigest(),
            "shape": list(clip.values.shape),
            "heard": clip.heard,
            "tokens": clip.tokens,
            "fill": clip.fill,
        }
        path = self.path(audio)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        handle, part = tempfile.mkstemp(dir=os.path.dirname(path))
        with os.fdopen(handle, "wb") as file:
            file.write(json.dumps(head).encode() + b"\n" + body)
        os.replace(part, path)


def extractor_settings(extractor: Any) -> str:
    """Everything that decides what an extractor computes, as text."""
    return type(extractor).__name__ + json.dumps(extractor.to_dict(), sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)
