"""A finding says: looked, and it is bad. A report is what one look found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Tuple

from remote.protocol.exits import ExitCode


class Severity(str, Enum):
    """How bad: an error stops a stage, a warning is told, info is told when asked."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True)
class Finding:
    """One thing seen. `check` is its stable name (`pipeline explain CHECK`); `hint` is one thing to type."""

    check: str
    severity: Severity
    message: str
    where: str = ""
    hint: str = ""
    exit_code: ExitCode = ExitCode.OK


@dataclass(frozen=True)
class Report:
    """Everything one look found, in order; `facts` carries what was measured, for people and for --json."""

    findings: Tuple[Finding, ...] = ()
    facts: Tuple[Tuple[str, str], ...] = ()

    @property
    def ok(self) -> bool:
        """No finding is an error."""
        return not self.errors

    @property
    def errors(self) -> Tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.severity is Severity.ERROR)

    def and_also(self, other: Report) -> Report:
        """Both looks, in order."""
        return Report(self.findings + other.findings, self.facts + other.facts)
