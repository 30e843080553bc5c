"""Save the results of a config's last `fix` and `verify`, for the reports of later runs that skip these stages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pipeline.records.signed import read_in_place, write_in_place
from pipeline.report.model import CureRow, FixRow
from remote.protocol.dataclass import dataclass, field
from remote.protocol.proof import ProofReport
from remote.protocol.values import Malformed, decode, encode

PROOFS_KEPT = 8


@dataclass(frozen=True)
class Evidence:
    """The parts of a report that cannot be computed again later.

    `proofs` has the proof of each run by the digest of the run's inputs, the newest last: runs of a config that differ
    in `--set` have different proofs.
    """

    proofs: dict[str, ProofReport] = field(default_factory=dict)
    fixes: tuple[FixRow, ...] = ()
    cures: tuple[CureRow, ...] = ()

    def with_proof(self, inputs: str, proof: ProofReport) -> Evidence:
        """Return a copy with the proof of the training that has inputs with this digest."""
        others = [(digest, one) for digest, one in self.proofs.items() if digest != inputs]
        return replace(self, proofs=dict([*others, (inputs, proof)][-PROOFS_KEPT:]))


def read_evidence(path: Path) -> Evidence:
    """Return the saved evidence, or an empty Evidence if this user did not write it at this path."""
    try:
        return decode(Evidence, read_in_place(path))
    except (OSError, ValueError, Malformed):
        return Evidence()


def write_evidence(path: Path, evidence: Evidence) -> None:
    """Save the evidence atomically, with an HMAC."""
    write_in_place(path, encode(evidence))
