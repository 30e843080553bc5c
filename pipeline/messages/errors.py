"""An exception as findings and as an outcome: all that it says, under its own name."""

from __future__ import annotations

from pipeline.messages.outcome import Outcome
from remote.errors import HalfstepError
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity


def outcome_of_error(command: str, error: HalfstepError) -> Outcome:
    """An exception as an outcome: its exit code, and its words as findings."""
    return Outcome(command, error.exit_code, findings=findings_of(error))


def findings_of(error: HalfstepError) -> tuple[Finding, ...]:
    """All that an exception says, under its class's name: CannotConnect is `cannot-connect`."""
    severity = Severity.WARNING if error.exit_code is ExitCode.INTERRUPTED else Severity.ERROR
    return error.findings or (
        Finding(error_name(type(error)), severity, error.message, error.where, error.hint, error.exit_code),
    )


def error_name(kind: type[HalfstepError]) -> str:
    """What that kind of error is called in findings and on its page."""
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in kind.__name__).lstrip("-")
