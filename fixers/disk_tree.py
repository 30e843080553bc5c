"""A folder on this machine as a tree: what git and the user ignore, environments and caches are not part of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pathspec import GitIgnoreSpec

IGNORE_FILES = (".gitignore", ".pipelineignore")
NEVER = frozenset(
    {".git", ".hg", ".svn", ".halfstep", ".tox", ".nox", ".venv", "__pycache__", "node_modules", "site-packages"}
    | {".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"}
)
ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")


@dataclass(frozen=True)
class Stamp:
    """What changes when a file does, without reading it."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True)
class Rules:
    """The ignore files of one folder; `base` is its POSIX name with a slash, empty for the root."""

    base: str
    spec: GitIgnoreSpec


class DiskTree:
    """Regular files under `root` by POSIX name. Symlinks are not followed, and not part of the tree."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def paths(self) -> Iterator[str]:
        """Every file that is not ignored, in order of names."""
        return (path for path, _ in self._walk("", ()))

    def stamps(self) -> Iterator[tuple[str, Stamp]]:
        """As `paths`, each with its stamp."""
        return self._walk("", ())

    def read(self, path: str) -> bytes:
        return (self.root / PurePosixPath(path)).read_bytes()

    def _walk(self, base: str, rules: tuple[Rules, ...]) -> Iterator[tuple[str, Stamp]]:
        with os.scandir(self.root / base) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        names = {entry.name for entry in entries}
        if base and any(mark in names for mark in ENVIRONMENT_MARKS):
            return
        rules = (*_read_rules(self.root, base, names), *rules)
        for entry in entries:
            path = base + entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in NEVER and not _ignored(path + "/", rules):
                    yield from self._walk(path + "/", rules)
            elif entry.is_file(follow_symlinks=False) and not _ignored(path, rules):
                yield path, _stamp(entry.stat(follow_symlinks=False))


def stamp_of(path: Path) -> Stamp | None:
    """The file's stamp; None where no regular file lies there."""
    try:
        facts = path.lstat()
    except OSError:
        return None
    return _stamp(facts) if stat.S_ISREG(facts.st_mode) else None


def _stamp(facts: os.stat_result) -> Stamp:
    return Stamp(facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino)


def _read_rules(root: Path, base: str, names: set[str]) -> tuple[Rules, ...]:
    lines: list[str] = []
    for name in IGNORE_FILES:
        if name in names:
            lines += (root / base / name).read_text("utf-8", "surrogateescape").splitlines()
    return (Rules(base, GitIgnoreSpec.from_lines(lines)),) if lines else ()


def _ignored(path: str, rules: tuple[Rules, ...]) -> bool:
    """The innermost folder that has an opinion decides, as git does."""
    for rule in rules:
        verdict = rule.spec.check_file(path[len(rule.base) :]).include
        if verdict is not None:
            return verdict
    return False
