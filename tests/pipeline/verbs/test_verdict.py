"""The last line of `pipeline verify`."""

from __future__ import annotations

import pytest

from pipeline.messages.outcome import Outcome, StageOutcome, StageState
from pipeline.stages.fix import describe_made
from pipeline.verbs.verify import NEXT_STEP, proved_before, verdict
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding

GIVEN = ("--host", "titan", "--config", "paper")
WARNING = Finding.warning("a", "odd")
ERROR = Finding.error("b", "bad", hint="pipeline explain b")


@pytest.mark.parametrize(
    ("code", "findings", "line"),
    [
        (
            ExitCode.OK,
            (WARNING,),
            "ready: 23 passed, 1 warning, 11 not checked -> next: pipeline run --host titan --config paper",
        ),
        (
            ExitCode.PRECISION,
            (WARNING, ERROR),
            "not ready: 1 error, 23 passed, 1 warning, 11 not checked -> next: pipeline explain b",
        ),
        (
            ExitCode.DISK,
            (Finding.error("disk", "full", hint="df -h /data   (on the host)"),),
            "not ready: 1 error, 23 passed, 0 warnings, 11 not checked -> on titan: df -h /data",
        ),
        (ExitCode.PRECISION, (Finding.error("b", "bad"),), "not ready: 1 error, 23 passed, 0 warnings, 11 not checked"),
    ],
)
def test_the_verdict_has_the_counts_and_the_next_command(
    code: ExitCode, findings: tuple[Finding, ...], line: str
) -> None:
    outcome = Outcome("verify", code, host="titan", config="paper", findings=findings, given=GIVEN)
    assert verdict(outcome, 23, [f"check {number}" for number in range(11)]) == line


def test_a_warning_about_a_check_that_was_not_made_is_counted_once() -> None:
    findings = (ERROR, Finding.warning("proof", "not checked: the errors must be fixed first"))
    outcome = Outcome("verify", ExitCode.PRECISION, findings=findings)
    line = "not ready: 1 error, 0 passed, 0 warnings, 1 not checked -> next: pipeline explain b"
    assert verdict(outcome, 0, ["proof"]) == line


def test_an_error_without_a_hint_is_not_followed_by_the_hint_of_another_error() -> None:
    findings = (Finding.error("unparsable-source", "train.py has invalid syntax"), ERROR)
    assert NEXT_STEP not in verdict(Outcome("verify", ExitCode.PRECISION, findings=findings), 0, [])


def test_a_project_with_a_valid_proof_needs_no_advice_to_prove_it() -> None:
    stages = [StageOutcome("fix", StageState.SKIPPED), StageOutcome("verify", StageState.SKIPPED)]
    assert proved_before(stages)
    assert not proved_before([stages[0], StageOutcome("verify", StageState.PENDING)])


def test_the_stage_fix_counts_files_as_files() -> None:
    assert describe_made(1, 0) == "1 file rewritten"
    assert describe_made(2, 1) == "2 files rewritten, 1 change of the host's setup"
    assert describe_made(0, 0) == "nothing to fix"


def test_the_stage_fix_counts_the_files_of_an_earlier_run_if_there_is_nothing_more_to_fix() -> None:
    assert describe_made(0, 0, before=6) == "nothing more to fix, 6 files rewritten earlier"
    assert describe_made(2, 0, before=6) == "2 files rewritten"
