"""The plan of a fixer: findings, file changes and host changes, before anything is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from remote.protocol.findings import Finding


@dataclass(frozen=True)
class FileChange:
    """New content for one file, written only if the file still equals `before`. `why` has one line per edit."""

    path: str
    before: bytes
    after: bytes
    fixers: dict[str, int]
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostChange:
    """One change on the host outside the project tree: a payload operation with its arguments and a description.

    `undo` is the operation that reverts it; empty if there is none.
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
    """The findings and changes of fixers. `skipped` lists the places that they leave unchanged."""

    findings: tuple[Finding, ...] = ()
    changes: tuple[FileChange | HostChange, ...] = ()
    skipped: tuple[SkippedPlace, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.changes

    def plus(self, other: Plan) -> Plan:
        return Plan(self.findings + other.findings, self.changes + other.changes, self.skipped + other.skipped)
