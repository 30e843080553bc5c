"""Match the path of a config with the paths that code, commands and documents contain."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from posixpath import dirname, join, normpath

from fixers.sources.commands import reads_commands

WORD = rb"(?<![\w-])%b(?![\w-])"
QUOTED = rb"[\"']%b[\"'.]"
FOLDER = rb"(?<![\w.])%b(?:/|(?=[\"'\s]*$|[\"']))"
COMPUTED = rb"(?<![\w.])%b/([^\s\"'`]*[*${][^\s\"'`]*)"
"""Patterns for the name of a file (WORD), of a module in a string (QUOTED), of a folder (FOLDER) and of a file
computed in a folder (COMPUTED)."""
VARIABLE = re.compile(rb"\$?\{[^{}]*\}|\$\w+|\*+|[*${].*")
"""Matches the parts of a path that are computed: variables, wildcards, alternatives, and the rest after any other."""
SEPARATOR = re.compile(rb"[\s\"'`=,;|]")
PLAIN = re.compile(r"\.?\w[\w.+-]*")
LONGEST = 300


def may_name(computed: bytes, name: bytes) -> bool:
    """Return True if a path with variables or wildcards, such as `stage${n}.json`, may be the name."""
    parts = VARIABLE.split(computed.rstrip(b".,;:)]"))
    return re.fullmatch(rb".*".join(map(re.escape, parts)), name) is not None


def contains_path(where: str, text: bytes, path: str, name: bytes, folders: Container[str]) -> bool:
    """Return True if `text`, the content of the file `where`, contains a path that may refer to the file `path`.

    The path ends in `name`. `folders`: the folders of the project that have files.
    """
    return any(_leads_to(each, where, path, folders) for each in _folders_before(text, name))


def _folders_before(text: bytes, name: bytes) -> Iterator[str]:
    """Yield what stands before the name: the folders of its path with a slash, or an empty string."""
    for found in re.finditer(WORD % re.escape(name), text):
        before = SEPARATOR.split(text[max(0, found.start() - LONGEST) : found.start()])[-1]
        yield before.decode("utf-8", "replace") if before.endswith(b"/") else ""


def _leads_to(folder: str, where: str, path: str, folders: Container[str]) -> bool:
    """Return True if `folder`, as written in the file `where`, may be the folder of the file `path`.

    The folders after the last variable must be those of the file. A relative path in a command does not lead to the
    file if it leads from the command's folder to another folder of the project.
    """
    parts, home = folder.split("/")[:-1], dirname(path)
    first = max((at + 1 for at, part in enumerate(parts) if not PLAIN.fullmatch(part)), default=0)
    named, own = "".join(f"/{part}" for part in parts[first:]), f"/{home}".rstrip("/")
    if not own.endswith(named) and not named.endswith(own):
        return False
    if not parts or not reads_commands(where) or not set(parts[:first]) <= {".", ".."}:
        return True
    places = [normpath(join(base, folder)) for base in _above(dirname(where))]
    return home in places or places[0] not in folders


def _above(folder: str) -> Iterator[str]:
    """Yield the folder and all folders above it."""
    yield folder
    while folder:
        folder = dirname(folder)
        yield folder
