"""The interface of a source fixer: a module that plans the edits of one file."""

from __future__ import annotations

from typing import Protocol

from fixers.frame.change import SkippedPlace
from fixers.frame.target import Target
from fixers.sources.source import Source
from fixers.sources.splice import Edit
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Finding

NO_BFLOAT16 = "no bfloat16 on this card"


@dataclass(frozen=True)
class Rewrite:
    """The edits, findings and skipped places of one fixer for one file."""

    edits: tuple[Edit, ...] = ()
    findings: tuple[Finding, ...] = ()
    skipped: tuple[SkippedPlace, ...] = ()


NOTHING = Rewrite()


class SourceFixer(Protocol):
    """A module of `fixers/code/` or `fixers/settings/`; its docstring is its rule page.

    `needles`: files that contain none of these words are not parsed. `below`: the fixer applies only if the card is
    known and has a lower compute capability. If it is None, the fixer always applies. `requires`: fixers that must run
    together with this one. `rewrite` is pure and idempotent: it plans no edits for its own output. `rewrite` may raise
    `Unparsable`.
    """

    @property
    def name(self) -> str: ...

    @property
    def safety(self) -> str: ...

    @property
    def needles(self) -> tuple[bytes, ...]: ...

    @property
    def below(self) -> tuple[int, int] | None: ...

    @property
    def requires(self) -> tuple[str, ...]: ...

    def matches(self, path: str) -> bool: ...

    def rewrite(self, source: Source, target: Target) -> Rewrite: ...
