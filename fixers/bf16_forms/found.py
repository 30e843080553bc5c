"""What the forms hand to the fixer: edits and findings, gathered in the order of the file."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from fixers.sources.python import Located, PythonSource
from fixers.sources.splice import Edit, line_of
from remote.protocol.findings import Finding, Severity

NAME = "bf16-to-fp16"


@dataclass
class Found:
    """A growing list of what would be edited in one file and what is only told."""

    source: PythonSource
    edits: list[Edit] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def warn(self, node: Located, message: str, *, hint: str = "", severity: Severity = Severity.WARNING) -> None:
        where = f"{self.source.path}:{line_of(self.source.data, self.source.raw_offset(node))}"
        self.findings.append(Finding(NAME, severity, message, where, hint))


def constant_of(node: ast.AST | None) -> object:
    """The value of a literal; `...` for anything else."""
    return node.value if isinstance(node, ast.Constant) else ...
