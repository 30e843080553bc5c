"""The plan of a fixer: findings, file changes and host changes, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from remote.protocol.dataclass import dataclass, field
from remote.protocol.findings import Finding


@dataclass(frozen=True)
class FileChange:
    """New content for one file, written only if the file still equals `before`. `why` has one line per edit."""

    path: str
    before: bytes
    after: bytes
    fixers: dict[str, int]
    why: tuple[str, ...] = ()


def gather_reasons(why: Iterable[str]) -> tuple[str, ...]:
    """Merge equal reasons: `line 28: x` and `line 35: x` become `lines 28, 35: x`."""
    places: dict[str, dict[str, None]] = {}
    for words in why:
        line, colon, reason = words.partition(": ")
        is_place = bool(colon) and line.removeprefix("line ").isdigit()
        places.setdefault(reason if is_place else words, {})[line.removeprefix("line ") if is_place else ""] = None
    return tuple(_place(list(lines)) + reason for reason, lines in places.items())


def _place(lines: list[str]) -> str:
    return f"line{'s' * (len(lines) > 1)} {', '.join(lines)}: " if lines != [""] else ""


@dataclass(frozen=True)
class HostChange:
    """One change on the host outside the project tree: a payload operation with its arguments and a description.

    `undo` is the operation that reverts the change, or empty if the change cannot be reverted.
    """

    fixer: str
    summary: str
    op: str
    args: dict[str, Any] = field(default_factory=dict)
    undo: str = ""


@dataclass(frozen=True)
class SkippedPlace:
    """A place that a fixer leaves unchanged, and the reason."""

    where: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """The findings and changes of fixers. `skipped` lists the places that the fixers leave unchanged."""

    findings: tuple[Finding, ...] = ()
    changes: tuple[FileChange | HostChange, ...] = ()
    skipped: tuple[SkippedPlace, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.changes

    def plus(self, other: Plan) -> Plan:
        return Plan(self.findings + other.findings, self.changes + other.changes, self.skipped + other.skipped)
