"""Resolve names that one Python file of the project imports from another."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from posixpath import dirname

from fixers.sources.module_files import files_of, imported_names
from fixers.sources.python import PythonSource, read_python
from fixers.sources.unparsable import Unparsable


class Modules:
    """The project's modules. Each module is parsed at most once, on first use."""

    def __init__(self, paths: Iterable[str], read: Callable[[str], bytes]) -> None:
        self._paths = frozenset(path for path in paths if path.endswith(".py"))
        self._read = read
        self._parsed: dict[str, PythonSource | None] = {}

    def source(self, path: str) -> PythonSource | None:
        """Return the parsed file, or None if it does not parse."""
        if path not in self._parsed:
            try:
                self._parsed[path] = read_python(path, self._read(path))
            except (Unparsable, OSError):
                self._parsed[path] = None
        return self._parsed[path]

    def definition(self, source: PythonSource, node: ast.expr) -> tuple[PythonSource, str] | None:
        """Return the project's file that defines an imported object, and the object's name in the file, or None."""
        meaning = source.names.meaning(node)
        if meaning is None or "." not in meaning.lstrip("."):
            return None
        module, _, name = meaning.rpartition(".")
        found = next(files_of(module, dirname(source.path), self._paths), None)
        defined = self.source(found) if found is not None else None
        return (defined, name) if defined is not None else None

    def reached(self, source: PythonSource) -> Iterator[PythonSource]:
        """Yield the file and every project file that it imports, directly or indirectly."""
        waiting, seen = [source], {source.path}
        while waiting:
            current = waiting.pop()
            yield current
            for path in self._imported(current):
                if path not in seen and (found := self.source(path)) is not None:
                    seen.add(path)
                    waiting.append(found)

    def _imported(self, source: PythonSource) -> Iterator[str]:
        for node in (*source.names.of_type(ast.Import), *source.names.of_type(ast.ImportFrom)):
            for name in imported_names(node):
                yield from files_of(name, dirname(source.path), self._paths)
