"""Find uses of paths in a Python file, and whether the script certainly reads them. Pure."""

from __future__ import annotations

import ast
from collections.abc import Callable

from pipeline.judgements.certain_reads import CertainReads, certain_reads
from pipeline.judgements.path_literals import PathReader, StartSettings
from pipeline.judgements.path_text import path_in
from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class PathUse:
    """A path literal and its location.

    `certain`: the script always reads the path. `model`: the script loads a model from the path.
    """

    path: str
    file: str
    line: int
    certain: bool = False
    model: bool = False

    @property
    def where(self) -> str:
        """The location as `src/train.py:12`."""
        return f"{self.file}:{self.line}" if self.line else self.file


def paths_in_python(
    file: str,
    tree: ast.Module,
    settings: StartSettings,
    *,
    started: bool,
    recognise: Callable[[str], str] = path_in,
) -> tuple[tuple[PathUse, ...], frozenset[str]]:
    """Return all paths in the file, and the options whose value the file certainly reads.

    `started` is True if the command runs this file. `recognise` returns the path in a text, or "".
    """
    reader = PathReader(tree, settings, recognise)
    reader.visit(tree)
    certain = certain_reads(tree, reader) if started else CertainReads()
    names = {id(node): certain.literals.get(id(node), "") for node, _ in reader.found}
    uses = tuple(
        PathUse(path, file, node.lineno, bool(names[id(node)]), names[id(node)] == "from_pretrained")
        for node, path in reader.found
    )
    return uses, certain.options
