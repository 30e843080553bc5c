"""The edits and findings that one fixer collects for one Python file."""

from __future__ import annotations

from fixers.frame.change import SkippedPlace
from fixers.frame.findings import error
from fixers.frame.source_fixer import Rewrite
from fixers.sources.python import Located, PythonSource
from fixers.sources.splice import Edit
from remote.protocol.dataclass import dataclass, field
from remote.protocol.findings import Finding, Severity


@dataclass
class Draft:
    """An unfinished rewrite: the edits, findings and skipped places of one file so far."""

    source: PythonSource
    check: str
    edits: list[Edit] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    skipped: list[SkippedPlace] = field(default_factory=list)

    def warn(self, node: Located, message: str, hint: str = "", *, severity: Severity = Severity.WARNING) -> None:
        """Add a warning for the node's line."""
        self.findings.append(Finding(self.check, severity, message, self.source.where(node), hint))

    def refuse(self, node: Located, message: str, hint: str = "") -> None:
        """Add an error, which stops the stage, for the node's line."""
        self.findings.append(error(self.check, message, self.source.where(node), hint))

    def replace(self, node: Located, replacement: str, why: str) -> None:
        """Replace the node's text."""
        self.edits.append(self.source.replace_node(node, replacement, why))

    def leave(self, node: Located, reason: str) -> None:
        """Record that the node is not changed, and the reason."""
        self.skipped.append(SkippedPlace(self.source.where(node), reason))

    @property
    def rewrite(self) -> Rewrite:
        return Rewrite(tuple(self.edits), tuple(self.findings), tuple(self.skipped))


def joined(edits: list[Edit]) -> tuple[Edit, ...]:
    """Merge insertions at the same position into one edit, because edits must not overlap."""
    joined: dict[int, Edit] = {}
    for edit in edits:
        earlier = joined.get(edit.start)
        whole = edit.replacement if earlier is None else earlier.replacement + edit.replacement
        joined[edit.start] = Edit(edit.start, edit.expected, whole, edit.why)
    return tuple(joined.values())
