"""Find the files of a project that an import loads. Pure: paths in, paths out."""

from __future__ import annotations

import ast
from collections.abc import Collection, Container, Iterable, Iterator
from posixpath import basename, commonprefix, dirname, join, splitext

SOURCE_ROOTS = ("", "src")
"""The folders in which the packages of a project usually are."""
INIT = "__init__.py"


def imported_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that an import statement may load; relative names begin with dots."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = "." * node.level + (node.module or "")
        yield base
        yield from (f"{base}{'.' * bool(node.module)}{alias.name}" for alias in node.names)


def files_of(name: str, folder: str, paths: Container[str], roots: Iterable[str] | None = None) -> Iterator[str]:
    """Yield the files of a module that a file in `folder` imports, without the packages that contain the module.

    An absolute name is searched in each of the `roots`. By default, these are the folder and SOURCE_ROOTS.
    """
    if name.startswith("."):
        for _ in range(len(name) - len(name.lstrip(".")) - 1):
            folder = dirname(folder)
        roots = (folder,)
    for root in dict.fromkeys((folder, *SOURCE_ROOTS)) if roots is None else roots:
        stem = join(root, *_parts(name))
        yield from (path for path in (f"{stem}.py", join(stem, INIT)) if path in paths)


class ModuleIndex:
    """Finds the files of a module in any folder of the project, because a program may extend its search path."""

    def __init__(self, paths: Collection[str]) -> None:
        self._paths = paths
        self._found: dict[tuple[str, str], tuple[str, ...]] = {}
        self._by_name: dict[str, list[str]] = {}
        self._packages: dict[str, list[str]] = {}
        for path in paths:
            self._by_name.setdefault(basename(_stem(path)), []).append(path)
            if basename(path) == INIT:
                self._packages.setdefault(basename(dirname(path)), []).append(dirname(path))

    def files_of(self, name: str, folder: str) -> tuple[str, ...]:
        """Return the files that an import of `name` in `folder` may load.

        For an absolute name, these are the nearest files of that name, and the packages that contain them. Of equally
        near files, those are returned that Python finds from a folder above the importing file, if there are any. None
        is returned if a nearer package has the first part of the name, but not the module: Python loads this package.
        """
        known = self._found.get((name, folder))
        if known is None:
            found = files_of(name, folder, self._paths) if name.startswith(".") else self._nearest(name, folder)
            known = self._found[name, folder] = tuple(dict.fromkeys(found))
        return known

    def _nearest(self, name: str, folder: str) -> Iterator[str]:
        parts = _parts(name)
        tail = "/".join(("", *parts))
        named = [path for path in self._by_name.get(parts[-1], ()) if f"/{_stem(path)}".endswith(tail)]
        shared = {path: _shared(dirname(path), folder) for path in named}
        most = max(shared.values(), default=0)
        if any(_shared(each, folder) > most for each in self._packages.get(parts[0], ())):
            return
        near = [path for path in named if shared[path] == most]
        above = [path for path in near if f"{folder}/".startswith(_stem(path)[: -len(tail[1:])])]
        for path in above or near:
            yield path
            yield from self._packages_above(path, len(parts))

    def _packages_above(self, path: str, depth: int) -> Iterator[str]:
        folder = dirname(path)
        for _ in range(depth):
            if (package := join(folder, INIT)) in self._paths:
                yield package
            folder = dirname(folder)


def _shared(folder: str, other: str) -> int:
    """Return the number of leading folders that the paths share."""
    return len(commonprefix([folder.split("/"), other.split("/")]))


def _parts(name: str) -> list[str]:
    return [part for part in name.split(".") if part]


def _stem(path: str) -> str:
    """Return the path of a module without its suffix, or the folder of a package."""
    return dirname(path) if basename(path) == INIT else splitext(path)[0]
