"""A folder on this machine as a tree: what git and the user ignore, environments and caches are not part of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

IGNORE_FILES = (".gitignore", ".pipelineignore")
NEVER = frozenset(
    {".git", ".hg", ".svn", ".halfstep", ".tox", ".nox", ".venv", "__pycache__", "node_modules", "site-packages"}
    | {".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"}
)
ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")


@dataclass(frozen=True)
class Rules:
    """The ignore files of one folder; `base` is its POSIX name with a slash, empty for the root."""

    base: str
    spec: GitIgnoreSpec


class DiskTree:
    """Regular files under `root` by POSIX name. Symlinks are not followed, and not part of the tree."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._prefix = f"{root}{os.sep}"

    def paths(self) -> Iterator[str]:
        """Every file that is not ignored, in order of names."""
        return self._walk("", ())

    def read(self, path: str) -> bytes:
        with open(f"{self._prefix}{path}", "rb") as file:  # noqa: PTH123 - thousands of small files
            return file.read()

    def digest(self, path: str) -> str:
        return hashlib.sha256(self.read(path)).hexdigest()

    def _walk(self, base: str, rules: tuple[Rules, ...]) -> Iterator[str]:
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
                yield path


def _read_rules(root: Path, base: str, names: set[str]) -> tuple[Rules, ...]:
    lines: list[str] = []
    for name in IGNORE_FILES:
        if name in names:
            lines += (root / base / name).read_text("utf-8", "surrogateescape").splitlines()
    return (Rules(base, GitIgnoreSpec.from_lines(line for line in lines if _is_pattern(line))),) if lines else ()


def _is_pattern(line: str) -> bool:
    """Git skips a line that it cannot mean; so do we."""
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _ignored(path: str, rules: tuple[Rules, ...]) -> bool:
    """The innermost folder that has an opinion decides, as git does."""
    for rule in rules:
        verdict = rule.spec.check_file(path[len(rule.base) :]).include
        if verdict is not None:
            return verdict
    return False
