"""The project's own packages that a script imports, but that no folder in which Python searches contains."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from posixpath import dirname, join, normpath

from fixers.frame.site import Tree
from fixers.setup.imported_modules import OWN_PATH, Loaded, files_of_script
from fixers.setup.started_module import PYTHONS
from fixers.sources.module_files import imported_names
from fixers.sources.syntax import parse_python
from remote.protocol.dataclass import dataclass

ROOTS = ("src", "")
"""The folders that usually contain the packages of a project."""


@dataclass(frozen=True)
class OwnPackage:
    """A package or module of the project, the folder that contains it, and the first import, as FILE:LINE."""

    name: str
    folder: str
    place: str


def folder_of_package(name: str, paths: Iterable[str]) -> str | None:
    """Return the folder of the project, `src` or "", that contains the package or module, or None."""
    return next((folder for folder in ROOTS if name in _modules_in(folder, paths)), None)


def own_packages_beyond(tree: Tree, command: Sequence[str], search_path: Sequence[str]) -> tuple[OwnPackage, ...]:
    """Return the own packages that the script of the command imports at its start, in folders that are not searched.

    Python searches the folder of a script, or the project's folder for `-m`, and `search_path`, the project's folders
    in PYTHONPATH. Return () for other launchers than Python, and if the script itself adds folders.
    """
    script, files = files_of_script(tree, command, search_path)
    words = {normpath(word) for word in command}
    if not script or command[0].rpartition("/")[2] not in PYTHONS:
        return ()
    first = dirname(script) if words & {script, dirname(script)} else ""
    return _imported_from(files, _modules_beyond(tree, {first, *search_path}))


def _modules_beyond(tree: Tree, searched: Collection[str]) -> Mapping[str, str]:
    """Return the folder of each module in ROOTS that none of the searched folders contains."""
    paths = [path for path in tree.paths() if path.endswith(".py")]
    reached = frozenset().union(*(_modules_in(folder, paths) for folder in searched))
    return {name: folder for folder in reversed(ROOTS) for name in _modules_in(folder, paths) - reached}


def _imported_from(files: Iterable[Loaded], beyond: Mapping[str, str]) -> tuple[OwnPackage, ...]:
    """Return the modules `beyond` that the files import, or () if a file that runs before these adds folders."""
    found: dict[str, OwnPackage] = {}
    for file in files:
        if any(file.path.startswith(f"{join(one.folder, one.name)}/") for one in found.values()):
            continue
        if OWN_PATH in file.data:
            return ()
        for name, line in _imported(file):
            if name in beyond:
                found.setdefault(name, OwnPackage(name, beyond[name], f"{file.path}:{line}"))
    return tuple(found.values())


def _modules_in(folder: str, paths: Iterable[str]) -> frozenset[str]:
    """Return the names of the modules in the folder, and of its folders that contain Python files."""
    prefix = f"{folder}/" if folder else ""
    inside = (path[len(prefix) :] for path in paths if path.startswith(prefix) and path.endswith(".py"))
    return frozenset(path.partition("/")[0].removesuffix(".py") for path in inside)


def _imported(file: Loaded) -> Iterator[tuple[str, int]]:
    """Yield the top-level names that statements outside functions and blocks import, with their lines."""
    try:
        body = parse_python(file.data).body
    except SyntaxError:
        return
    for node in body:
        for name in imported_names(node):
            root = name.partition(".")[0]
            if root and root not in sys.stdlib_module_names and root not in file.installed:
                yield root, node.lineno
