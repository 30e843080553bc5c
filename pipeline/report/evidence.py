"""What a config's last fix and proof on a host showed, kept for the report: stages that hold are not done again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pipeline.records.files import write_whole
from pipeline.report.model import CureRow, FixRow
from remote.protocol.proof import ProofReport
from remote.protocol.values import Malformed, decode, dumps


@dataclass(frozen=True)
class Evidence:
    """The parts of a report that only the moment itself can tell."""

    proof: ProofReport | None = None
    fixes: tuple[FixRow, ...] = ()
    cures: tuple[CureRow, ...] = ()


def read_evidence(path: Path) -> Evidence:
    """What was kept; nothing where it cannot be read."""
    try:
        return decode(Evidence, json.loads(path.read_bytes()))
    except (OSError, ValueError, Malformed):
        return Evidence()


def write_evidence(path: Path, evidence: Evidence) -> None:
    """It is kept, whole."""
    write_whole(path, dumps(evidence))
