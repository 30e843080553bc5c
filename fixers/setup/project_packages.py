"""Read the packages that a project requires from its requirements files or its pyproject.toml."""

from __future__ import annotations

import difflib
import posixpath
import re
import tomllib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from fixers.frame.site import Tree
from fixers.sources.toml_text import parse_toml
from fixers.sources.unparsable import LARGEST_TEXT
from remote.protocol.dataclass import dataclass
from remote.protocol.shell import is_plain

REQUIREMENTS = "requirements.txt"
PYPROJECT = "pyproject.toml"
INCLUDE = re.compile(rb"^[ \t]*(?:-r|--requirement|-c|--constraint)[ \t=]+(\S+)", re.MULTILINE)
REQUIRED = re.compile(rb"^[ \t]*(?:-r|--requirement)[ \t=]+(\S+)", re.MULTILINE)
NAME = re.compile(r"\s*([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*(?:$|[\[<>=!~;@#,(\s])")
SEPARATORS = re.compile(r"[-_.]+")
"""Equal in names of packages (packaging.python.org, name normalization)."""


class NoPackages(Exception):
    """The requirements cannot be read. `hint` says how to correct the setting or the file."""

    def __init__(self, message: str, where: str, hint: str) -> None:
        super().__init__(message)
        self.message, self.where, self.hint = message, where, hint


@dataclass(frozen=True)
class ProjectPackages:
    """Arguments for pip: `files` for `-r` (paths relative to the tree), and `packages` (requirement strings)."""

    files: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


def read_packages(tree: Tree, settings: Mapping[str, Any]) -> ProjectPackages:
    """Read the files of the setting `requirements`, or requirements.txt, or pyproject.toml. Raises NoPackages."""
    paths = set(tree.paths())
    wanted = settings.get("requirements")
    if wanted is None:
        found = next((name for name in (REQUIREMENTS, PYPROJECT) if name in paths), None)
        names = [found] if found else []
    else:
        names = [str(name) for name in wanted] if isinstance(wanted, list | tuple) else [str(wanted)]
    for name in names:
        if name not in paths:
            near = difflib.get_close_matches(name, filter(is_plain, paths), n=1, cutoff=0.6)
            hint = f"requirements: {near[0]}" if near else "list only project files that are sent to the host"
            raise NoPackages(f"the project has no file {name}", "fixers.environment.requirements", hint)
    files = tuple(name for name in names if not name.endswith(".toml"))
    packages = [package for name in names if name.endswith(".toml") for package in _dependencies(tree, name)]
    deque(read_files(tree, files), maxlen=0)  # refuses files that are too large
    return ProjectPackages(files, tuple(packages))


def read_files(tree: Tree, names: Iterable[str], include: re.Pattern[bytes] = INCLUDE) -> Iterator[tuple[str, bytes]]:
    """Yield the path and content of the requirements files, and of the project's files that they include.

    Raises NoPackages if they have more than LARGEST_TEXT bytes in all.
    """
    paths, new, seen, size = set(tree.paths()), deque(names), set[str](), 0
    while new:
        path = new.popleft()
        if path in seen or path not in paths:
            continue
        seen.add(path)
        data = tree.read(path)
        size += len(data)
        if size > LARGEST_TEXT:
            message = f"{path}: requirements files of more than {LARGEST_TEXT >> 20} MiB in all are not read"
            raise NoPackages(message, path, "list only packages in requirements files")
        yield path, data
        included = (found.decode("utf-8", "replace") for found in dict.fromkeys(include.findall(data)))
        new += [posixpath.normpath(posixpath.join(posixpath.dirname(path), each)) for each in included]


def names_of(tree: Tree, packages: ProjectPackages) -> frozenset[str]:
    """Return the normalized names of the packages, and of those in the files and in the files that they include.

    Constraints are no requirements. Raises NoPackages like `read_files`.
    """
    lines = (
        line
        for _, data in read_files(tree, packages.files, REQUIRED)
        for line in data.decode("utf-8", "replace").split("\n")
    )
    found = filter(None, (NAME.match(line) for line in chain(lines, packages.packages)))
    return frozenset(SEPARATORS.sub("-", match.group(1)).lower() for match in found)


def _dependencies(tree: Tree, name: str) -> list[str]:
    """Return `project.dependencies` of a pyproject.toml.

    The project itself is not installed: it runs from its folder.
    """
    hint = "write the packages into requirements.txt"
    try:
        project = parse_toml(tree.read(name).decode("utf-8")).get("project", {})
    except (UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError) as error:
        raise NoPackages(f"{name} cannot be read: {error}", name, hint) from None
    if not isinstance(project, dict):
        raise NoPackages(f"{name}: `project` is not a table", name, hint)
    if "dependencies" in project.get("dynamic", ()):
        raise NoPackages(f"{name} has dynamic dependencies, computed when it is built", name, hint)
    listed = project.get("dependencies", [])
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise NoPackages(f"{name}: project.dependencies is not a list of strings", name, hint)
    return list(listed)
