"""Save the results of a config's last `fix` and `verify`, for the reports of later runs that skip these stages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.records.signed import read_record, write_record
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
    """Return the saved evidence, or an empty Evidence if the file cannot be read or another user wrote it."""
    try:
        body, own = read_record(path)
        return decode(Evidence, body) if own else Evidence()
    except (OSError, ValueError, Malformed):
        return Evidence()


def write_evidence(path: Path, evidence: Evidence) -> None:
    """Save the evidence atomically, with an HMAC."""
    write_record(path, encode(evidence), signed=True)
