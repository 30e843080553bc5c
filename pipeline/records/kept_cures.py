"""Record the cures of a config on a host. Later runs apply these cures from the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.diagnosis.cures import MOST_CURES, Cure, named_cure
from pipeline.records.inputs import digest
from pipeline.records.signed import read_in_place, write_in_place
from remote.protocol.dataclass import dataclass
from remote.protocol.values import Malformed, decode, encode


@dataclass(frozen=True)
class KeptCure:
    """The name of a cure. The cure's overrides are not recorded: later versions may define them differently."""

    name: str


@dataclass(frozen=True)
class KeptCures:
    """Recorded cures, and the digest of their config. The cures apply only while the config is unchanged."""

    config: str
    cures: tuple[KeptCure, ...] = ()


def read_cures(path: Path, config: dict[str, Any]) -> tuple[Cure, ...]:
    """Return the recorded cures of this config, with their current definitions.

    Returns () if the config has changed, or if this user did not write the record at this path. Names of cures that do
    not exist are ignored.
    """
    try:
        kept = decode(KeptCures, read_in_place(path))
    except (OSError, ValueError, Malformed):
        return ()
    if kept.config != digest(config):
        return ()
    names = dict.fromkeys(cure.name for cure in kept.cures)
    cures = (named_cure(name, config) for name in names)
    return tuple(cure for cure in cures if cure is not None)[:MOST_CURES]


def write_cures(path: Path, config: dict[str, Any], cures: tuple[Cure, ...]) -> None:
    """Record the cures of this config."""
    write_in_place(path, encode(KeptCures(digest(config), tuple(KeptCure(cure.name) for cure in cures))))
