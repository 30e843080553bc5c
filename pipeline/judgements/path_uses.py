"""Uses of paths in a Python file: where each is written, and whether the start reads it. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from pipeline.judgements.certain_reads import CertainReads, certain_reads
from pipeline.judgements.path_literals import Given, PathReader


@dataclass(frozen=True)
class PathUse:
    """A path as it is written, and where. `certain`: the start reads it whatever else happens; `model`: as a model."""

    path: str
    file: str
    line: int
    certain: bool = False
    model: bool = False

    @property
    def where(self) -> str:
        """`src/train.py:12`."""
        return f"{self.file}:{self.line}" if self.line else self.file


def paths_in_python(
    file: str, tree: ast.Module, given: Given, *, started: bool
) -> tuple[tuple[PathUse, ...], frozenset[str]]:
    """Every path in the file's code, and the options whose value it is certain to read.

    `started`: the start command runs this very file.
    """
    reader = PathReader(file, tree, given)
    reader.visit(tree)
    certain = certain_reads(tree, reader) if started else CertainReads()
    names = {id(node): certain.literals.get(id(node), "") for node, _ in reader.found}
    uses = tuple(
        PathUse(path, file, node.lineno, bool(names[id(node)]), names[id(node)] == "from_pretrained")
        for node, path in reader.found
    )
    return uses, certain.options
