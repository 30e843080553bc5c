"""A fixer's plan: what it found, and every change it would make, as bytes and words before anything is touched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from remote.protocol.findings import Finding


@dataclass(frozen=True)
class FileChange:
    """One file of the tree: applied only where its digest is still `before_sha256`. `why` has a line per edit."""

    path: str
    before: bytes
    after: bytes
    fixers: dict[str, int]
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostChange:
    """One act on the host that is not an edit of the tree: a payload operation, and the words for it.

    `undo` is the operation that takes it back, where there is one.
    """

    fixer: str
    summary: str
    op: str
    args: dict[str, Any] = field(default_factory=dict)
    undo: str = ""


@dataclass(frozen=True)
class Plan:
    """What fixers found and would change; empty `changes` means that nothing is left to do."""

    findings: tuple[Finding, ...] = ()
    changes: tuple[FileChange | HostChange, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.changes

    def and_also(self, other: Plan) -> Plan:
        return Plan(self.findings + other.findings, self.changes + other.changes)
