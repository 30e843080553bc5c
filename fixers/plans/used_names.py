"""The names that a file may use: in code, in strings, and composed of text and values."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress

from fixers.plans.composed_names import Composed, composed_in
from fixers.sources.python import TREES, PythonSource
from fixers.sources.unparsable import Unparsable

OF_LIBRARY = re.compile(r"(?:json|joblib|librosa|numpy|pickle|torch|torchaudio|yaml)\.")


class UsedNames:
    """The names that files may use. Each file is parsed once, and only if its text contains one of the names."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self._in_code: dict[str, frozenset[str] | None] = {}
        self._composed: dict[str, tuple[Composed, ...]] = {}

    def used_in(self, paths: Iterable[str], names: Collection[str]) -> frozenset[str]:
        """Return those of the names that a file may use."""
        return frozenset(name for path in paths for name in self._names_in(path, names)) if names else frozenset()

    def _names_in(self, path: str, names: Collection[str]) -> Iterator[str]:
        data = self._read(path)
        present = {each for each in names if each.encode() in data}
        code = self._code(path, data) if present else None
        used = present if code is None else present & code
        yield from used
        for name in set(names) - used:
            if any(each.may_be(name.encode()) for each in self._texts(path, data)):
                yield name

    def _code(self, path: str, data: bytes) -> frozenset[str] | None:
        if path not in self._in_code:
            source = source_of(path, data) if path.endswith(".py") else None
            self._in_code[path] = None if source is None else frozenset(uses(source.tree, source))
        return self._in_code[path]

    def _texts(self, path: str, data: bytes) -> tuple[Composed, ...]:
        if path not in self._composed:
            self._composed[path] = composed_in(data)
        return self._composed[path]


def source_of(path: str, data: bytes) -> PythonSource | None:
    """Return the parsed file, or None if it cannot be parsed."""
    with suppress(Unparsable):
        return TREES.read(path, data)
    return None


def uses(tree: ast.AST, source: PythonSource) -> Iterator[str]:
    """Yield the names in the code, and strings: `getattr` and configs use functions by strings.

    Functions of libraries, such as `json.load`, are left out.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if not OF_LIBRARY.match(source.names.meaning(node) or ""):
                yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.rpartition(".")[2]
