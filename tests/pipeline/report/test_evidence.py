"""The saved evidence: the proof of each of the last trainings of a config."""

from __future__ import annotations

from pathlib import Path

from pipeline.report.evidence import PROOFS_KEPT, Evidence, read_evidence, write_evidence
from remote.protocol.proof import ProofReport


def test_each_training_has_its_own_proof(tmp_path: Path) -> None:
    slow, fast = ProofReport((), step_seconds=9.6), ProofReport((), step_seconds=2.9)
    write_evidence(tmp_path / "a.evidence.json", Evidence().with_proof("a", fast).with_proof("b", slow))
    read = read_evidence(tmp_path / "a.evidence.json")
    assert (read.proofs.get("a"), read.proofs.get("b"), read.proofs.get("c")) == (fast, slow, None)


def test_the_newest_proofs_are_kept() -> None:
    evidence = Evidence().with_proof("first", ProofReport(()))
    for number in range(PROOFS_KEPT - 1):
        evidence = evidence.with_proof(str(number), ProofReport(()))
    evidence = evidence.with_proof("first", ProofReport((), step_seconds=1.0)).with_proof("last", ProofReport(()))
    assert list(evidence.proofs) == [*map(str, range(1, PROOFS_KEPT - 1)), "first", "last"]
