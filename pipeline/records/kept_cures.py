"""Records of the cures of a config on a host, which later runs use from the start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.diagnosis.cures import Cure
from pipeline.records.files import write_atomic
from pipeline.records.inputs import digest
from remote.project.digests import read_json
from remote.protocol.values import Malformed, decode, dumps


@dataclass(frozen=True)
class KeptCures:
    """Cures, and the digest of their config; they apply only while the config is unchanged."""

    config: str
    cures: tuple[Cure, ...] = ()


def read_cures(path: Path, config: dict[str, Any]) -> tuple[Cure, ...]:
    """Return the recorded cures of exactly this config."""
    try:
        kept = decode(KeptCures, read_json(path))
    except (OSError, ValueError, Malformed):
        return ()
    return kept.cures if kept.config == digest(config) else ()


def write_cures(path: Path, config: dict[str, Any], cures: tuple[Cure, ...]) -> None:
    """Record the cures of this config."""
    write_atomic(path, dumps(KeptCures(digest(config), cures)))
