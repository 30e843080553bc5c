"""The edits and findings that a fixer collects for one settings or command file, at most one edit per position."""

from __future__ import annotations

from fixers.frame.findings import error, warning
from fixers.frame.source_fixer import Rewrite
from fixers.sources.splice import Edit, line_of
from remote.protocol.dataclass import dataclass, field
from remote.protocol.findings import Finding


@dataclass
class EditList:
    """Edits and findings for `data`. `data` is a part of the file that starts after `lines_above` lines."""

    path: str
    data: bytes
    check: str
    lines_above: int = 0
    edits: dict[int, Edit] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def rewrite(self) -> Rewrite:
        return Rewrite(tuple(self.edits[start] for start in sorted(self.edits)), tuple(self.findings))

    def warn(self, offset: int, message: str, hint: str = "") -> None:
        """Add a warning for the line that contains the byte offset."""
        where = f"{self.path}:{self.lines_above + line_of(self.data, offset)}"
        self.findings.append(warning(self.check, message, where, hint))

    def refuse(self, offset: int, message: str, hint: str = "") -> None:
        """Add an error, which stops the stage, for the line that contains the byte offset."""
        where = f"{self.path}:{self.lines_above + line_of(self.data, offset)}"
        self.findings.append(error(self.check, message, where, hint))

    def put(self, start: int, end: int, text: bytes, why: str) -> None:
        """Replace the bytes from `start` to `end`. If there already is an edit at `start`, keep that edit."""
        self.edits.setdefault(start, Edit(start, self.data[start:end], text, why))

    def part(self, start: int, stop: int) -> EditList:
        """Return an empty EditList for the bytes from `start` to `stop`."""
        return EditList(self.path, self.data[start:stop], self.check, self.lines_above + line_of(self.data, start) - 1)

    def take(self, part: EditList, start: int) -> None:
        """Add the edits and findings of a part that begins at the byte `start`."""
        for edit in part.edits.values():
            self.put(start + edit.start, start + edit.end, edit.replacement, edit.why)
        self.findings += part.findings
