"""A verb shows its findings with the most severe first."""

from __future__ import annotations

import pytest

from pipeline.messages.as_json import outcome_to_json
from pipeline.messages.outcome import Outcome, job_outcome
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import Checkpoint, JobResult, JobState, Progress, RunSurvey


def finding(check: str, severity: Severity) -> Finding:
    return Finding(check, severity, "it is so")


def test_errors_come_before_warnings_and_each_group_keeps_its_order() -> None:
    came = (
        finding("card-assumed", Severity.WARNING),
        finding("fp16-unscale", Severity.ERROR),
        finding("not-checked", Severity.INFO),
        finding("secret-file", Severity.WARNING),
        finding("child-failed", Severity.ERROR),
    )
    shown = Outcome("run", ExitCode.PRECISION, findings=came).shown_findings
    assert [one.check for one in shown] == [
        "fp16-unscale",
        "child-failed",
        "card-assumed",
        "secret-file",
        "not-checked",
    ]


def test_SE_a_host_that_sends_many_findings_fills_no_terminal() -> None:
    sent = [finding("job-warning", Severity.WARNING)] * 180_000 + [finding("child-failed", Severity.ERROR)] * 100
    outcome = Outcome("status", findings=(*sent, finding("not-checked", Severity.INFO)))
    shown = outcome.shown_findings
    assert [one.check for one in shown] == [
        *["child-failed"] * 100,
        *["job-warning"] * 100,
        "more-findings",
        "not-checked",
    ]
    assert (shown[200].severity, shown[200].message) == (Severity.WARNING, "179,900 more findings of this severity")
    assert len(outcome_to_json(outcome)["findings"]) == len(shown)


@pytest.mark.parametrize(
    ("job", "began", "step"),
    [(1, 0, 90), (2, 90, 90), (2, None, 90), (2, 0, 74)],
    ids=["first job", "resumed", "not known", "started again"],
)
def test_the_step_of_a_restarted_job_does_not_come_from_an_earlier_job_s_checkpoint(
    job: int, began: int | None, step: int
) -> None:
    run = RunSurvey(
        "r",
        "c",
        "f",
        job,
        JobState.FAILED,
        result=JobResult(1),
        progress=Progress(74, 90, began=began),
        checkpoints=(Checkpoint("checkpoint-90", 90),),
    )
    assert job_outcome(run).step == step
