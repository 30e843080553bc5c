"""What a verb says is told worst first."""

from __future__ import annotations

from pipeline.messages.outcome import Outcome
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity


def finding(check: str, severity: Severity) -> Finding:
    return Finding(check, severity, "it is so")


def test_errors_are_told_before_warnings_each_as_they_came() -> None:
    came = (
        finding("card-assumed", Severity.WARNING),
        finding("fp16-unscale", Severity.ERROR),
        finding("not-checked", Severity.INFO),
        finding("secret-file", Severity.WARNING),
        finding("child-failed", Severity.ERROR),
    )
    told = Outcome("run", ExitCode.PRECISION, findings=came).told
    assert [one.check for one in told] == [
        "fp16-unscale",
        "child-failed",
        "card-assumed",
        "secret-file",
        "not-checked",
    ]
