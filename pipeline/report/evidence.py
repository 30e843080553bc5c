"""Save the results of a config's last `fix` and `verify`, for the reports of later runs that skip these stages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.records.signed import read_in_place, write_in_place
from pipeline.report.model import CureRow, FixRow
from remote.protocol.proof import ProofReport
from remote.protocol.values import Malformed, decode, encode


@dataclass(frozen=True)
class Evidence:
    """The parts of a report that cannot be computed again later."""

    proof: ProofReport | None = None
    fixes: tuple[FixRow, ...] = ()
    cures: tuple[CureRow, ...] = ()


def read_evidence(path: Path) -> Evidence:
    """Return the saved evidence, or an empty Evidence if this user did not write it at this path."""
    try:
        return decode(Evidence, read_in_place(path))
    except (OSError, ValueError, Malformed):
        return Evidence()


def write_evidence(path: Path, evidence: Evidence) -> None:
    """Save the evidence atomically, with an HMAC."""
    write_in_place(path, encode(evidence))
