"""The words and the output of a proof."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from pipeline.messages.listener import NoListener
from pipeline.stages.stage import Context
from pipeline.stages.verify import in_words, prove
from remote.protocol.findings import Finding, Severity
from remote.protocol.proof import ProofReport
from remote.protocol.values import encode
from tests.lab.fake_host import FakeHost
from tests.pipeline.views import view_of


def error(check: str) -> Finding:
    return Finding(check, Severity.ERROR, f"{check} is bad")


@pytest.mark.parametrize(
    ("findings", "words"),
    [
        ((), "fp32 trains"),
        ((Finding("proof-blind", Severity.WARNING, "no step was seen"),), "fp32: not proved: no step was seen"),
        ((error("proof-timeout"),), "fp32: not proved: proof-timeout is bad"),
        ((error("proof-timeout"), error("loss-zero")), "fp32 would not train"),
        ((error("loss-zero"),), "fp32 would not train"),
    ],
)
def test_only_what_was_seen_to_be_bad_is_said_not_to_train(
    findings: tuple[Finding, ...], words: str, tmp_path: Path
) -> None:
    assert in_words(view_of(tmp_path), ProofReport(findings)) == words


def test_a_secret_that_the_proof_saw_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "swordfish-4711")
    view = view_of(tmp_path)
    view = replace(view, loaded=load_config("plain", tmp_path, ["secrets=[SERVICE_TOKEN]"]))
    seen = ProofReport((), exit=1, output_tail="OddError: swordfish-4711 was refused\n")
    host = FakeHost(streams={"proof.run": [{"report": encode(seen)}]})
    assert prove(Context(host, view, NoListener())).output_tail == "OddError: *** was refused\n"
