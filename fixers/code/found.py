"""What one fixer gathers in one Python file: edits, and what is only told."""

from __future__ import annotations

from dataclasses import dataclass, field

from fixers.frame.source_fixer import Rewrite
from fixers.sources.python import Located, PythonSource
from fixers.sources.splice import Edit, line_of
from remote.protocol.findings import Finding, Severity


@dataclass
class Found:
    """A growing list of what would be edited in one file and what is only told."""

    source: PythonSource
    check: str
    edits: list[Edit] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def warn(self, node: Located, message: str, *, hint: str = "", severity: Severity = Severity.WARNING) -> None:
        where = f"{self.source.path}:{line_of(self.source.data, self.source.raw_offset(node))}"
        self.findings.append(Finding(self.check, severity, message, where, hint))

    @property
    def rewrite(self) -> Rewrite:
        return Rewrite(tuple(self.edits), tuple(self.findings))
