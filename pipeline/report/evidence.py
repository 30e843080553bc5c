"""Save the results of a config's last `fix` and `verify`, for the reports of later runs that skip these stages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.records.files import write_atomic
from pipeline.report.model import CureRow, FixRow
from remote.project.digests import read_json
from remote.protocol.proof import ProofReport
from remote.protocol.values import Malformed, decode, dumps


@dataclass(frozen=True)
class Evidence:
    """The parts of a report that cannot be computed again later."""

    proof: ProofReport | None = None
    fixes: tuple[FixRow, ...] = ()
    cures: tuple[CureRow, ...] = ()


def read_evidence(path: Path) -> Evidence:
    """Return the saved evidence, or an empty Evidence if the file is missing or cannot be read."""
    try:
        return decode(Evidence, read_json(path))
    except (OSError, ValueError, Malformed):
        return Evidence()


def write_evidence(path: Path, evidence: Evidence) -> None:
    """Save the evidence atomically."""
    write_atomic(path, dumps(evidence))
