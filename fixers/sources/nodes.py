"""The tree that YAML and JSON share: scalars, sequences and mappings that know which bytes they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Bytes `start` to `end` of the file; `line` and `column` of the first, counted from 1."""

    start: int
    end: int
    line: int
    column: int


@dataclass(frozen=True)
class Scalar:
    """One value as text. `style` is "" for a plain one, else its first character: ' " | >. `tag` only where written."""

    text: str
    place: Place
    style: str = ""
    tag: str = ""


@dataclass(frozen=True)
class Sequence:
    items: tuple[Node, ...]
    place: Place
    tag: str = ""
    flow: bool = False


@dataclass(frozen=True)
class Mapping:
    """Every pair in order, duplicates kept."""

    entries: tuple[tuple[Node, Node], ...]
    place: Place
    tag: str = ""
    flow: bool = False

    def get(self, key: str) -> Node | None:
        """The value of the first entry whose key is the scalar `key`."""
        return next((v for k, v in self.entries if isinstance(k, Scalar) and k.text == key), None)


Node = Scalar | Sequence | Mapping
Path = tuple[str | int, ...]


def walk(node: Node | None) -> Iterator[tuple[Path, Node | None, Node]]:
    """Every (path, key node, value node) below `node`, in order; a sequence's items have no key node.

    What several aliases share is entered once, at its first path.
    """
    yield from _walk(node, (), set())


def _walk(node: Node | None, path: Path, entered: set[int]) -> Iterator[tuple[Path, Node | None, Node]]:
    if node is None or isinstance(node, Scalar) or id(node) in entered:
        return
    entered.add(id(node))
    rows: list[tuple[str | int, Node | None, Node]] = []
    if isinstance(node, Mapping):
        rows = [(key.text if isinstance(key, Scalar) else "?", key, value) for key, value in node.entries]
    else:
        rows = [(index, None, item) for index, item in enumerate(node.items)]
    for step, key, value in rows:
        yield (*path, step), key, value
        yield from _walk(value, (*path, step), entered)


def find(node: Node | None, path: Path) -> Node | None:
    """The node at `path`, where the document has it."""
    for step in path:
        if isinstance(node, Mapping) and isinstance(step, str):
            node = node.get(step)
        elif isinstance(node, Sequence) and isinstance(step, int) and 0 <= step < len(node.items):
            node = node.items[step]
        else:
            return None
    return node
