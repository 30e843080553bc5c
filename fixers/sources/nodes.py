"""The tree shared by YAML, JSON, TOML and INI: scalars, sequences and mappings with byte positions."""

from __future__ import annotations

from collections.abc import Iterator

from remote.protocol.dataclass import dataclass

TABLE = "table"
"""The tag of mappings in TOML and INI. In these files, a block cannot be inserted after another block."""


@dataclass(frozen=True)
class Span:
    """The byte range `start` to `end` in the file; `line` and `column` of the first byte start at 1."""

    start: int
    end: int
    line: int
    column: int


@dataclass(frozen=True)
class Scalar:
    """A value as text. `style`: "" for a plain scalar, otherwise ', ", | or >. `tag`: the explicit tag, or empty."""

    text: str
    span: Span
    style: str = ""
    tag: str = ""


@dataclass(frozen=True)
class Sequence:
    items: tuple[Node, ...]
    span: Span
    tag: str = ""
    flow: bool = False


@dataclass(frozen=True)
class Mapping:
    """All key-value pairs in file order, including duplicate keys."""

    entries: tuple[tuple[Node, Node], ...]
    span: Span
    tag: str = ""
    flow: bool = False

    def get(self, key: str) -> Node | None:
        """Return the value of the first entry whose key is the scalar `key`, or None."""
        return next((v for k, v in self.entries if isinstance(k, Scalar) and k.text == key), None)


Node = Scalar | Sequence | Mapping
Path = tuple[str | int, ...]


def walk(node: Node | None) -> Iterator[tuple[Path, Node | None, Node]]:
    """Yield (path, key node, value node) for everything below `node`, in order.

    The key node is None for items of sequences.

    A node that several aliases share is visited once, at its first path.
    """
    yield from _walk(node, (), set())


def _walk(node: Node | None, path: Path, visited: set[int]) -> Iterator[tuple[Path, Node | None, Node]]:
    if node is None or isinstance(node, Scalar) or id(node) in visited:
        return
    visited.add(id(node))
    rows: list[tuple[str | int, Node | None, Node]] = []
    if isinstance(node, Mapping):
        rows = [(key.text if isinstance(key, Scalar) else "?", key, value) for key, value in node.entries]
    else:
        rows = [(index, None, item) for index, item in enumerate(node.items)]
    for step, key, value in rows:
        yield (*path, step), key, value
        yield from _walk(value, (*path, step), visited)


def find(node: Node | None, path: Path) -> Node | None:
    """Return the node at `path`, or None if the path does not exist."""
    for step in path:
        if isinstance(node, Mapping) and isinstance(step, str):
            node = node.get(step)
        elif isinstance(node, Sequence) and isinstance(step, int) and 0 <= step < len(node.items):
            node = node.items[step]
        else:
            return None
    return node
