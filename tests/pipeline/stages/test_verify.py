"""What a failed proof exits with."""

from __future__ import annotations

import pytest

from pipeline.stages.verify import code_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((), ExitCode.OK),
        ((ExitCode.TRAINING, ExitCode.PRECISION), ExitCode.PRECISION),
        ((ExitCode.GPU, ExitCode.PRECISION), ExitCode.GPU),
        ((ExitCode.OK,), ExitCode.PRECISION),
    ],
)
def test_a_training_that_was_never_begun_has_not_failed(codes: tuple[ExitCode, ...], expected: ExitCode) -> None:
    report = Report(tuple(Finding("x", Severity.ERROR, "no", exit_code=code) for code in codes))
    assert code_of(report) is expected
