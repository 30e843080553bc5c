"""What a source fixer is: a module that says which bytes of one file it would change, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fixers.frame.target import Target
from fixers.sources.source import Source
from fixers.sources.splice import Edit
from remote.protocol.findings import Finding

NO_BFLOAT16 = "no bfloat16 on this card"


@dataclass(frozen=True)
class Rewrite:
    """What one fixer would do to one file. Findings are told even where nothing is edited."""

    edits: tuple[Edit, ...] = ()
    findings: tuple[Finding, ...] = ()


NOTHING = Rewrite()


class SourceFixer(Protocol):
    """A module of `fixers/code/` or `fixers/settings/`, called as it is; its docstring is its rule page.

    `needles`: a file that holds none of these bytes is never parsed. `below`: act only on a known card of lower
    compute capability; None: on any site. `brings`: fixers without which this one must not act.
    `rewrite` is pure; it may raise `Unparsable` and must find nothing to edit in its own output.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def safety(self) -> str: ...

    @property
    def needles(self) -> tuple[bytes, ...]: ...

    @property
    def below(self) -> tuple[int, int] | None: ...

    @property
    def brings(self) -> tuple[str, ...]: ...

    def matches(self, path: str) -> bool: ...

    def rewrite(self, source: Source, target: Target) -> Rewrite: ...
