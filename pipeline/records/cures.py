"""The cures that a config was healed with on a host: remembered, so that the next run does not fall ill again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.diagnosis.cures import Cure
from pipeline.records.files import write_whole
from pipeline.records.inputs import digest
from remote.protocol.values import Malformed, decode, dumps


@dataclass(frozen=True)
class KeptCures:
    """The cures, and the digest of the config they were for: another config begins without them."""

    config: str
    cures: tuple[Cure, ...] = ()


def read_cures(path: Path, config: dict[str, Any]) -> tuple[Cure, ...]:
    """What this very config was healed with."""
    try:
        cured = decode(KeptCures, json.loads(path.read_bytes()))
    except (OSError, ValueError, Malformed):
        return ()
    return cured.cures if cured.config == digest(config) else ()


def write_cures(path: Path, config: dict[str, Any], cures: tuple[Cure, ...]) -> None:
    """They are remembered for this config."""
    write_whole(path, dumps(KeptCures(digest(config), cures)))
