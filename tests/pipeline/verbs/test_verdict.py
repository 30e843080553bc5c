"""The last line of `pipeline verify`."""

from __future__ import annotations

import pytest

from pipeline.messages.outcome import Outcome
from pipeline.verbs.verify import verdict
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
        (ExitCode.PRECISION, (Finding.error("b", "bad"),), "not ready: 1 error, 23 passed, 0 warnings, 11 not checked"),
    ],
)
def test_the_verdict_has_the_counts_and_the_next_command(
    code: ExitCode, findings: tuple[Finding, ...], line: str
) -> None:
    outcome = Outcome("verify", code, host="titan", config="paper", findings=findings, given=GIVEN)
    assert verdict(outcome, 23, 11) == line
