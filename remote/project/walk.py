"""Every path of a project as git and .pipelineignore see it; files are looked at and not opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from remote.project.git_index import find_repository, tracked_paths
from remote.project.ignore import Rules, is_ignored, parse_rules

ALWAYS_OUT = frozenset({".git", ".halfstep", "__pycache__"})
MAX_RULES = 2**20
MAX_DEPTH = 100
MAX_ENTRIES = 1_000_000


@dataclass(frozen=True)
class Walk:
    """What lies under a root and is not ignored. `odd`: path and what it is, for what is neither file nor link.

    `tracked`: what git's index holds under the root.
    """

    files: dict[str, os.stat_result] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    odd: dict[str, str] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    too_deep: list[str] = field(default_factory=list)
    cut: bool = False
    tracked: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Folder:
    path: str
    git: tuple[Rules, ...]
    ours: tuple[Rules, ...]
    only_tracked: bool = False


@dataclass(frozen=True)
class _Tracked:
    """What git's index holds under the root; `prefix` is the root's own path in the repository."""

    prefix: str = ""
    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()


def walk_project(root: Path) -> Walk:
    """Everything under `root` that is the project's."""
    outer, tracked = _outside(root)
    walk = Walk(tracked=tracked.files)
    waiting = [_Folder("", outer, ())]
    entries = 0
    while waiting:
        folder = waiting.pop()
        try:
            listed = sorted(os.scandir(root / folder.path), key=lambda entry: entry.name)
        except OSError as error:
            walk.unreadable[folder.path] = error.strerror or str(error)
            continue
        entries += len(listed)
        if entries > MAX_ENTRIES:
            return Walk(walk.files, walk.links, walk.odd, walk.unreadable, walk.too_deep, cut=True)
        names = {entry.name for entry in listed}
        if folder.path and "pyvenv.cfg" in names:
            continue
        folder = _with_rules(folder, root, names, tracked.prefix)
        waiting.extend(_sort_out(folder, listed, walk, tracked))
    return walk


def _sort_out(folder: _Folder, listed: list[os.DirEntry[str]], walk: Walk, tracked: _Tracked) -> Iterator[_Folder]:
    prefix = f"{folder.path}/" if folder.path else ""
    for entry in listed:
        path, name = prefix + entry.name, entry.name
        if name in ALWAYS_OUT or name.startswith(".#"):
            continue
        is_folder = entry.is_dir(follow_symlinks=False)
        only_tracked = folder.only_tracked
        if folder.git or folder.ours or only_tracked:
            ours = _last_word(folder, path, name, is_folder)
            out = _is_out(folder, tracked, path, name, is_folder) if ours is None else ours
            if ours or (out and not (is_folder and path in tracked.folders)):
                continue
            only_tracked = out
        if is_folder:
            if path.count("/") >= MAX_DEPTH:
                walk.too_deep.append(path)
            else:
                yield _Folder(path, folder.git, folder.ours, only_tracked)
        else:
            _note(entry, path, walk)


def _last_word(folder: _Folder, path: str, name: str, is_folder: bool) -> bool | None:
    """What .pipelineignore says: it counts for tracked files and folders too. None where it says nothing."""
    verdicts = (rules.verdict(path, name, is_folder) for rules in folder.ours)
    return next((verdict for verdict in verdicts if verdict is not None), None)


def _is_out(folder: _Folder, tracked: _Tracked, path: str, name: str, is_folder: bool) -> bool:
    if path in tracked.files:
        return False
    return folder.only_tracked or is_ignored(folder.git, tracked.prefix + path, name, is_folder)


def _note(entry: os.DirEntry[str], path: str, walk: Walk) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            walk.files[path] = status
        elif stat.S_ISLNK(status.st_mode):
            walk.links[path] = os.readlink(entry.path)  # noqa: PTH115 - text as it is, not normalised
        else:
            walk.odd[path] = kind_of(status.st_mode)
    except FileNotFoundError:
        return


def kind_of(mode: int) -> str:
    """What a mode is called where it is no file, folder or link."""
    kinds = ((stat.S_ISSOCK, "a socket"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISBLK, "a device"))
    return next((word for test, word in kinds if test(mode)), "a device" if stat.S_ISCHR(mode) else "no regular file")


def _with_rules(folder: _Folder, root: Path, names: set[str], prefix: str) -> _Folder:
    git, ours = folder.git, folder.ours
    inside = f"{folder.path}/" if folder.path else ""
    if ".gitignore" in names:
        git = (*_read_rules(root / folder.path / ".gitignore", prefix + inside), *git)
    if ".pipelineignore" in names:
        ours = (*_read_rules(root / folder.path / ".pipelineignore", inside), *ours)
    return _Folder(folder.path, git, ours, folder.only_tracked)


def _read_rules(path: Path, inside: str) -> tuple[Rules, ...]:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return ()
            text = file.read(MAX_RULES).decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    except OSError:
        return ()
    rules = parse_rules(text, inside)
    return (rules,) if rules.patterns else ()


def _outside(root: Path) -> tuple[tuple[Rules, ...], _Tracked]:
    """What the repository around `root` says: its rules above it, innermost first, and what it tracks below it."""
    found = find_repository(root)
    if found is None:
        return (), _Tracked()
    top, git_folder = found
    steps = root.relative_to(top).parts
    prefix = "".join(f"{step}/" for step in steps)
    rules = _read_rules(git_folder / "info" / "exclude", "")
    for depth, step in enumerate(steps):
        above = "".join(f"{name}/" for name in steps[:depth])
        rules = (*_read_rules(top / above / ".gitignore", above), *rules)
        if is_ignored(rules, above + step, step, is_folder=True):
            return (), _Tracked()
    files = frozenset(path[len(prefix) :] for path in tracked_paths(git_folder) if path.startswith(prefix))
    folders = {path[:at] for path in files for at in _slashes(path)}
    return rules, _Tracked(prefix, files, frozenset(folders))


def _slashes(path: str) -> Iterator[int]:
    at = path.find("/")
    while at >= 0:
        yield at
        at = path.find("/", at + 1)
