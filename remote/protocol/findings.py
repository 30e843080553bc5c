"""Findings, which are the results of checks, and reports of several findings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Tuple

from remote.protocol.exits import ExitCode


class Severity(str, Enum):
    """An error stops a stage. A warning is always shown. An info is shown on request."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True)
class Finding:
    """The result of a check. `check` is its stable name (`pipeline explain CHECK`); `hint` is one thing to type.

    `exit_code` is OK if the code depends on the verb or stage that reports the finding.
    """

    check: str
    severity: Severity
    message: str
    where: str = ""
    hint: str = ""
    exit_code: ExitCode = ExitCode.OK

    @classmethod
    def error(
        cls, check: str, message: str, where: str = "", hint: str = "", exit_code: ExitCode = ExitCode.OK
    ) -> Finding:
        """Return a finding that stops a stage."""
        return cls(check, Severity.ERROR, message, where, hint, exit_code)

    @classmethod
    def warning(cls, check: str, message: str, where: str = "", hint: str = "") -> Finding:
        """Return a finding that does not stop a stage."""
        return cls(check, Severity.WARNING, message, where, hint)


@dataclass(frozen=True)
class Report:
    """The findings of one check, in order. `facts` are the measured values, for people and for --json."""

    findings: Tuple[Finding, ...] = ()
    facts: Tuple[Tuple[str, str], ...] = ()

    @property
    def ok(self) -> bool:
        """True if no finding is an error."""
        return not self.errors

    @property
    def errors(self) -> Tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.severity is Severity.ERROR)

    def plus(self, other: Report) -> Report:
        """Return a report with the findings of both, in order."""
        return Report(self.findings + other.findings, self.facts + other.facts)
