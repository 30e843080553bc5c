"""Leave out the notebooks and settings files that the command of a config cannot use, because nothing names them.

A file is named if its name, or the stem of a settings file, occurs in the config, in Python code, in a shell script,
Makefile, Dockerfile or `.env` file, in a file that the command names, or in a settings file that is named itself.
Notebooks and documents name nothing: the command runs neither. Python files and shell scripts are always kept, because
code may import or start them by a computed name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from os import fsencode
from posixpath import basename, dirname, normpath, splitext

from fixers.frame.change import FileChange, HostChange, Plan, SkippedPlace
from fixers.frame.site import Site, Tree
from fixers.sources.commands import reads_commands
from fixers.sources.config_files import INI, JSON, YAML, reads_config
from remote.protocol.findings import Finding

NOT_NAMED = "files that the command does not use"
WORD = re.compile(rb"[\w.+-]+")
ENDINGS = (*YAML, *JSON, *INI, ".toml", ".ipynb")
MOST_COMPUTED = 100_000
MOST_ROUNDS = 20
"""The length of a chain of settings files that name each other. At the end of a longer one, each file may be named."""
IN_STRING = re.compile(rb"[\"'/=]([\w.+-]+)(?=[\"'/])")
"""Matches a part of a path in a string of Python code, where a name may have no ending."""
ENDING = re.compile(r"(?:{})\b".format("|".join(map(re.escape, ENDINGS))).encode(), re.IGNORECASE)
AROUND = re.compile(rb"[\s\"'`=,;()/]")
LONGEST = 200
VALUE = re.compile(rb"\$?\{[^{}]*\}|\$\w+|%[sd]|\*+")
"""Matches a value or wildcard in a computed name, such as `stage{n}.json` or `*.yaml`."""
SHORTEST = 3
"""The least number of letters of a computed name, without its ending, that may name a file."""
SEPARATOR = re.compile(r"[\s'\"=;]+")
MOST_BYTES = 4 * 2**20
"""The size above which a settings file or a file of the command is data, which names no settings."""


def without_unnamed(plan: Plan, site: Site) -> Plan:
    """Return the plan without changes and findings of files that the command of the config cannot use.

    The plan is not changed without a command, because the built-in trainer reads no file of the project's code and
    `fix PATH` without a config corrects every file.
    """
    command = site.config.get("command")
    paths = {_path(each) for each in (*plan.changes, *plan.findings)}
    if not command or not any(map(_may_be_unnamed, paths)):
        return plan
    names = _names_of(site, " ".join(command) if isinstance(command, list | tuple) else str(command))
    left = {path for path in paths if _may_be_unnamed(path) and not names.hold(path)}
    skipped = tuple(SkippedPlace(path, NOT_NAMED) for path in sorted(left))
    return Plan(
        tuple(each for each in plan.findings if _path(each) not in left),
        tuple(each for each in plan.changes if _path(each) not in left),
        (*(each for each in plan.skipped if each.where not in left), *skipped),
    )


def _path(each: FileChange | HostChange | Finding) -> str:
    """Return the file of a change or finding, or ""."""
    if isinstance(each, Finding):
        path, _, line = each.where.rpartition(":")
        return path if line.isdigit() else each.where
    return each.path if isinstance(each, FileChange) else ""


def _parts(path: str) -> tuple[str, ...]:
    """Return the words by which a text may name the file: its name, its stem, its ending and the name of its folder."""
    name = basename(path)
    return (name, *splitext(name), basename(dirname(path)))


def _may_be_unnamed(path: str) -> bool:
    return path.endswith(".ipynb") or (reads_config(path) and not reads_commands(path))


class _Names:
    """The names of the files `paths` in texts: `words` in any place, and `stems` where a name may have no ending.

    `computed`: for the first part of each computed name, its possible last parts. With more than MOST_COMPUTED of them,
    each file may be named. `latest`: those computed names that were not compared with all files yet. `listed`: the
    endings of wildcards such as `*.json`.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        # Texts may contain many more words than memory should hold.
        self.wanted = frozenset(fsencode(part) for path in paths for part in _parts(path))
        self.words: set[bytes] = set()
        self.stems: set[bytes] = set()
        self.computed: dict[bytes, set[bytes]] = {}
        self.latest: dict[bytes, set[bytes]] = {}
        self.names_all = False
        self._count = 0
        self.listed: set[bytes] = set()

    def add(self, text: bytes, *, is_python: bool = False) -> None:
        pattern, group = (IN_STRING, 1) if is_python else (WORD, 0)
        words = (word for each in pattern.finditer(text) for word in (each[group], each[group].strip(b".")))
        found = self.wanted.intersection(words)
        self.stems |= found
        self.words |= set() if is_python else found
        for each in ENDING.finditer(text):
            if self.names_all:
                return
            self._add_name(AROUND.split(text[max(0, each.start() - LONGEST) : each.end()])[-1])

    def _add_name(self, name: bytes) -> None:
        if b"}" in name and b"{" not in name:  # a value that contains quotes or spaces
            name = b"{}" + name.rpartition(b"}")[2]
        parts = VALUE.split(name)
        if len(parts) == 1:
            self.words |= {name} & self.wanted
        elif parts[0] or not name.startswith(b"*"):
            for computed in (self.computed, self.latest):
                computed.setdefault(parts[0], set()).add(parts[-1])
            self._count += 1
            self.names_all = self._count > MOST_COMPUTED
        else:
            self.listed |= {parts[-1]} & self.wanted

    def take_held(self, paths: Iterable[str]) -> set[str]:
        """Return those of the paths that the texts may name. The next call does not compare the same computed names."""
        found = {path for path in paths if self._hold(path, self.latest)}
        self.latest = {}
        return found

    def hold(self, path: str) -> bool:
        """Return True if the texts may name the file."""
        return self._hold(path, self.computed)

    def _hold(self, path: str, computed: dict[bytes, set[bytes]]) -> bool:
        if self.names_all:
            return True
        name = fsencode(basename(path))
        if name in self.words or path.endswith(".ipynb"):
            return name in self.words
        stem, ending = (fsencode(each) for each in splitext(basename(path)))
        folder = fsencode(basename(dirname(path)))
        is_listed = ending in self.listed and (not folder or folder in self.stems)
        return stem in self.stems or is_listed or _may_compute(computed, stem, ending)


def _may_compute(computed: dict[bytes, set[bytes]], stem: bytes, ending: bytes) -> bool:
    """Return True if a computed name may be the stem with this ending."""
    name = stem + ending
    for at in range(len(stem) + 1 if computed else 0):
        lasts = computed.get(stem[:at], set())
        # The last part of a computed name has the ending.
        sizes = range(len(ending) + max(0, SHORTEST - at), len(name) - at + 1)
        if len(lasts) > len(sizes):
            found = any(name[len(name) - size :] in lasts for size in sizes)
        else:
            found = any(len(last) in sizes and name.endswith(last) for last in lasts)
        if found:
            return True
    return False


def _names_of(site: Site, command: str) -> _Names:
    """Return the names in the config, in the code and commands of the project, and in the settings that these name."""
    tree, paths = site.tree, tuple(site.tree.paths())
    started = {normpath(word) for word in SEPARATOR.split(command)}
    waiting = {each for each in paths if _may_be_unnamed(each) or (each in started and not each.endswith(".py"))}
    names = _Names(waiting)
    names.add(json.dumps([command, dict(site.config), dict(site.environment)], default=str).encode())
    for path, text in _texts(tree, paths, lambda each: each.endswith(".py") or reads_commands(each)):
        names.add(text, is_python=path.endswith(".py"))
    for _ in range(MOST_ROUNDS):
        named = names.take_held(waiting) | (waiting & started)
        if not named:
            return names
        waiting -= named
        for _, text in _texts(tree, named, lambda each: not each.endswith(".ipynb")):
            names.add(text if len(text) <= MOST_BYTES else b"")
    names.names_all = True
    return names


def _texts(tree: Tree, paths: Iterable[str], is_read: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    for path in paths:
        if is_read(path):
            with suppress(OSError):
                yield path, tree.read(path)
