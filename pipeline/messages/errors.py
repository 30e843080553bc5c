"""Convert exceptions to findings and outcomes."""

from __future__ import annotations

from pipeline.messages.outcome import Outcome
from remote.errors import HalfstepError
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity


def outcome_of_error(command: str, error: HalfstepError) -> Outcome:
    """Return an outcome with the exception's exit code and findings."""
    return Outcome(command, error.exit_code, findings=findings_of(error))


def findings_of(error: HalfstepError) -> tuple[Finding, ...]:
    """Return the exception's findings.

    If there are no findings, return one with the name of the exception's class, such as `cannot-connect`.
    """
    severity = Severity.WARNING if error.exit_code is ExitCode.INTERRUPTED else Severity.ERROR
    return error.findings or (
        Finding(error_name(type(error)), severity, error.message, error.where, error.hint, error.exit_code),
    )


def error_name(kind: type[HalfstepError]) -> str:
    """Return the name of an exception class in findings and in `pipeline explain`."""
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in kind.__name__).lstrip("-")
