"""How a proof and its output are described."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from pipeline.stages.stage import Context
from pipeline.stages.verify import describe_proof, diagnose_proof, prove
from pipeline.verbs.diagnose import diagnose
from remote.protocol.findings import Finding, Severity
from remote.protocol.proof import NotChecked, ProofReport, ProvedStep
from remote.protocol.tree import Row
from remote.protocol.values import encode
from tests.fixers.casebook import TITAN_RTX
from tests.lab.fake_host import FakeHost
from tests.pipeline.listeners import NoListener
from tests.pipeline.views import view_of


def error(check: str) -> Finding:
    return Finding(check, Severity.ERROR, f"{check} is bad")


@pytest.mark.parametrize(
    ("findings", "words"),
    [
        ((), "fp32 works"),
        ((Finding("proof-blind", Severity.WARNING, "no step was seen"),), "fp32: not proved: no step was seen"),
        ((error("proof-timeout"),), "fp32: not proved: proof-timeout is bad"),
        ((error("proof-timeout"), error("loss-zero")), "fp32 would not train"),
        ((error("loss-zero"),), "fp32 would not train"),
    ],
)
def test_a_proof_is_described_as_failed_only_for_faults_that_it_observed(
    findings: tuple[Finding, ...], words: str, tmp_path: Path
) -> None:
    assert describe_proof(view_of(tmp_path), ProofReport(findings)) == words


@pytest.mark.parametrize(
    ("step_s", "eta_s", "wall_s", "words"),
    [
        (0.1, 5.0, 4.5, "fp32 works: 0.1 s per step, about 5.0 s for all steps, 4.3 s to load"),
        (0.01, 0.4, 0.5, "fp32 works: 10 ms per step, about 0.4 s for all steps, 0.5 s to load"),
        (1.2, 144.0, 62.4, "fp32 works: 1.2 s per step, about 2 min for all steps, 60 s to load"),
    ],
)
def test_the_estimate_separates_steps_and_loading(
    step_s: float, eta_s: float, wall_s: float, words: str, tmp_path: Path
) -> None:
    steps = (ProvedStep(True, step_s), ProvedStep(True, step_s))
    proof = ProofReport((), steps=steps, step_seconds=step_s, eta_s=eta_s, wall_s=wall_s)
    assert describe_proof(view_of(tmp_path), proof) == words


@pytest.mark.parametrize(
    ("severity", "requested", "words"),
    [
        (Severity.WARNING, "fp16-mixed", "trains without the autocast of fp16-mixed: 0.5 s per step"),
        (Severity.INFO, "fp16-mixed", "fp16-mixed works: 0.5 s per step"),
        (Severity.WARNING, "fp32", "fp32 works: 0.5 s per step"),
    ],
)
def test_a_command_that_trains_without_autocast_is_not_reported_as_half_precision(
    severity: Severity, requested: str, words: str, tmp_path: Path
) -> None:
    view = view_of(tmp_path)
    view = replace(view, loaded=load_config("plain", tmp_path, [f"precision={requested}"]))
    view = replace(view, survey=replace(view.survey, gpus=(TITAN_RTX,)))
    proof = ProofReport((Finding("autocast", severity, "autocast is off"),), step_seconds=0.5)
    assert describe_proof(view, proof) == words


@pytest.mark.parametrize(
    ("assumed", "card_bytes", "proved"),
    [(True, None, False), (True, 24 * 2**30, True), (False, 24 * 2**30, True)],
    ids=["on the CPU", "on a compute node with a card", "on the card"],
)
@pytest.mark.parametrize("severity", [Severity.INFO, Severity.WARNING])
def test_a_proof_on_the_cpu_is_not_described_as_a_proof_on_the_assumed_card(
    assumed: bool, card_bytes: int | None, proved: bool, severity: Severity, tmp_path: Path
) -> None:
    view = view_of(tmp_path)
    view = replace(view, survey=replace(view.survey, gpus=(replace(TITAN_RTX, assumed=assumed),)))
    proof = ProofReport((Finding("loss-scale", severity, "m"),), step_seconds=0.5, total_bytes=card_bytes)
    words = "works" if proved else "trains on this CPU, not proved on the assumed card (NVIDIA TITAN RTX 7.5)"
    assert describe_proof(view, proof) == f"fp16-mixed {words}: 0.5 s per step"


@pytest.mark.parametrize(
    ("requested", "words"),
    [
        ("fp16-mixed", "trains on this CPU without float16; fp16-mixed is not proved on the assumed card"),
        ("fp32", "fp32 trains on this CPU, not proved on the assumed card"),
    ],
)
def test_a_command_that_uses_float16_only_on_a_card_is_not_said_to_train_with_it(
    requested: str, words: str, tmp_path: Path
) -> None:
    view = view_of(tmp_path)
    view = replace(view, loaded=load_config("plain", tmp_path, [f"precision={requested}"]))
    view = replace(view, survey=replace(view.survey, gpus=(replace(TITAN_RTX, assumed=True),)))
    proof = ProofReport((), unseen=(NotChecked("autocast", "bfloat16 on this CPU"),), step_seconds=0.5)
    assert describe_proof(view, proof) == f"{words} (NVIDIA TITAN RTX 7.5): 0.5 s per step"


def test_a_short_run_is_estimated_in_seconds() -> None:
    facts = dict(ProofReport((), step_seconds=0.1, eta_s=5.0).report.facts)
    assert facts["all steps"] == "about 5.0 s"


def test_a_secret_in_the_output_of_the_proof_is_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "swordfish-4711")
    view = view_of(tmp_path)
    view = replace(view, loaded=load_config("plain", tmp_path, ["secrets=[SERVICE_TOKEN]"]))
    seen = ProofReport((), exit=1, output_tail="OddError: swordfish-4711 was refused\n")
    host = FakeHost(streams={"proof.run": [{"report": encode(seen)}]})
    assert prove(Context(host, view, NoListener())).output_tail == "OddError: *** was refused\n"


def test_the_output_of_a_failed_proof_is_kept_and_named_with_a_command_that_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    view = view_of(tmp_path)
    output = 'Traceback (most recent call last):\n  File "train.py", line 3, in f\n    g(x)\nOddError: Box(\n  1\n)\n'
    [finding] = diagnose_proof(view, ProofReport((), exit=1, output_tail=output)).findings
    assert finding.message == "unrecognised error: OddError: Box( 1 )"
    assert finding.where == "train.py:3 in f: g(x); .halfstep/state/local/plain.proof.log, line 4"
    command, path = finding.hint.split()
    assert command == "less"
    assert (tmp_path / path).read_text() == output
    monkeypatch.chdir(tmp_path)
    assert diagnose(path) == 40
    assert "train.py:3 in f: g(x)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rewritten", "hint"), [("own.py", "Run `pipeline fix --undo`"), ("train.py", "Correct the line")]
)
def test_only_a_file_that_a_fixer_has_rewritten_is_to_be_undone(tmp_path: Path, rewritten: str, hint: str) -> None:
    view = view_of(tmp_path)
    fixed = {rewritten: Row("a" * 64, "b" * 64, 0o644, 10)}
    view = view.with_survey(replace(view.survey, tree=replace(view.survey.tree, fixed=fixed)))
    output = "  File \"own.py\", line 3\n    def f()\n           ^\nSyntaxError: expected ':'\n"
    [finding] = diagnose_proof(view, ProofReport((), exit=1, output_tail=output)).findings
    assert finding.message == "Python cannot parse a file that the script loads: expected ':'"
    assert finding.where == "own.py:3: def f(); .halfstep/state/local/plain.proof.log, line 4"
    assert finding.hint.startswith(hint)


def test_the_output_of_a_proof_that_succeeded_is_not_kept(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    diagnose_proof(view, ProofReport((), exit=1, output_tail="OddError: no\n"))
    assert diagnose_proof(view, ProofReport((), output_tail="fine\n")).findings == ()
    assert not view.records.proof_output(view.host.name, view.loaded.record).exists()


class Printed(NoListener):
    """Keeps the progress."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        self.lines.append(text)


def test_a_step_that_is_not_one_of_the_two_announced_steps_is_marked(tmp_path: Path) -> None:
    """Steps that are skipped, or applied at a learning rate of 0, do not count."""
    steps = (ProvedStep(False, 1.0), *(ProvedStep(True, 1.0, learning_rate=rate) for rate in (0.0, 1e-5, None)))
    replies = [*({"step": encode(step)} for step in steps), {"report": encode(ProofReport(()))}]
    printed = Printed()
    prove(Context(FakeHost(streams={"proof.run": replies}), view_of(tmp_path), printed))
    assert printed.lines == [
        "step 1 skipped",
        "step 2 applied (learning rate 0, no effect)",
        "step 3 applied",
        "step 4 applied",
    ]
