"""The exit code of a list of findings."""

from __future__ import annotations

import pytest

from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity

OWN_CODE = Finding.error("gpu", "no card", exit_code=ExitCode.GPU)
NO_CODE = Finding.error("unknown-error", "it failed")
WARNING = Finding.warning("clock", "off by an hour")
UNREACHABLE = Finding("unreachable", Severity.WARNING, "no answer", exit_code=ExitCode.CONNECT)


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ((), ExitCode.OK),
        ((WARNING,), ExitCode.OK),
        ((OWN_CODE,), ExitCode.GPU),
        ((NO_CODE,), ExitCode.PRECISION),
        ((NO_CODE, OWN_CODE), ExitCode.PRECISION),
        ((OWN_CODE, NO_CODE), ExitCode.GPU),
        ((WARNING, OWN_CODE), ExitCode.GPU),
        ((UNREACHABLE,), ExitCode.CONNECT),
        ((UNREACHABLE, OWN_CODE), ExitCode.GPU),
    ],
)
def test_the_first_error_decides_the_exit_code(findings: tuple[Finding, ...], code: ExitCode) -> None:
    assert exit_code_of(iter(findings), ExitCode.PRECISION) is code
