"""Findings, which are the results of checks, and reports of several findings."""

from __future__ import annotations

import re
from enum import Enum
from typing import Annotated, Tuple

from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.hidden import Lines

CHECK_NAME = re.compile(r"[a-z0-9-]{1,64}")
UNNAMED = "unnamed-check"


class Severity(str, Enum):
    """An error stops a stage. A warning is always shown. An info is shown on request."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


def valid_check(name: str) -> str:
    """Return the name of a check, or UNNAMED if it has another form than the names of halfstep's checks."""
    return name if CHECK_NAME.fullmatch(name) else UNNAMED


CheckName = Annotated[str, valid_check]


@dataclass(frozen=True)
class Finding:
    """The result of a check.

    `check` is the check's stable name (`pipeline explain CHECK`); `hint` is a command or setting. If `exit_code` is OK,
    the command or stage that reports the finding selects the exit code.
    """

    check: CheckName
    severity: Severity
    message: Lines
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
    """The findings of one check, in order. `facts` contains the measured values, for the terminal and --json."""

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
        """Return a report with the findings and facts of this report, then those of `other`."""
        return Report(self.findings + other.findings, self.facts + other.facts)
