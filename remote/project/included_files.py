"""The files that belong to a project: the files that git and .pipelineignore include. Their contents are not read."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from remote.project.git_index import IndexMemory
from remote.project.ignore import Rules, byte_text, parse_rules, verdict_of
from remote.project.paths import resolved
from remote.project.real_paths import real_path_of
from remote.project.repository import Repository, find_repository, repository_at
from remote.protocol.dataclass import dataclass, field
from remote.protocol.regular import open_regular

ALWAYS_OUT = frozenset({".git", ".halfstep", "__pycache__"})
NOT_SOURCE = (
    ".hg", ".svn", ".tox", ".nox", ".venv", "node_modules", "site-packages", ".ipynb_checkpoints",
    ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis",
)  # fmt: skip
"""Folders that are left out, unless git tracks files in a folder or an ignore file includes it (`!node_modules/`).
"""
DEFAULTS = parse_rules("".join(f"{name}/\n" for name in NOT_SOURCE).encode())
ENVIRONMENT_MARKS = frozenset({"pyvenv.cfg", "conda-meta"})
RULE_FILES = (".gitignore", ".pipelineignore")
MAX_RULES = 2**20
"""The maximum size of all ignore files of a walk, in bytes. Matching one name with their patterns takes up to 50 ms."""
MAX_DEPTH = 100
MAX_ENTRIES = 1_000_000


@dataclass(frozen=True)
class Walk:
    """Everything under a root that is not ignored. `root` is the path of the folder that was opened, without links.

    `special` maps the paths of other entries, such as sockets, to their kind. `unreadable` maps each folder that could
    not be listed to the reason. `cut` is True if the walk stopped at MAX_ENTRIES.
    """

    files: dict[str, os.stat_result] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    special: dict[str, str] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    too_deep: list[str] = field(default_factory=list)
    scopes: tuple[_Scope, ...] = ()
    cut: bool = False
    root: str = ""

    @cached_property
    def tracked(self) -> frozenset[str]:
        """The tracked paths under the root, including the tracked paths of nested repositories."""
        return frozenset().union(*(scope.tracked for scope in self.scopes))


@dataclass(frozen=True)
class _Scope:
    """The repository that contains a folder, or None, and their relative position.

    `inside` is the path of a nested repository, relative to the root of the walk. `above` is the path of the root of
    the walk, relative to a surrounding repository. Both are "" or end with a slash.
    """

    repository: Repository | None = None
    inside: str = ""
    above: str = ""
    ignores_case: bool = False
    memory: IndexMemory = field(default_factory=IndexMemory)

    @cached_property
    def tracked(self) -> frozenset[str]:
        """The tracked paths, relative to the root of the walk."""
        if self.repository is None:
            return frozenset()
        listed, cut = self.repository.tracked_paths(self.memory), len(self.above)
        return frozenset(self.inside + path[cut:] for path in listed if path.startswith(self.above))

    @cached_property
    def _keys(self) -> frozenset[str]:
        return frozenset(map(str.lower, self.tracked)) if self.ignores_case else self.tracked

    @cached_property
    def _sorted(self) -> list[str]:
        """All keys in order. A set of their folders could be a thousand times larger than the index."""
        return sorted(self._keys)

    def is_tracked(self, path: str) -> bool:
        """Return True if the index contains the file or submodule."""
        return (path.lower() if self.ignores_case else path) in self._keys

    def holds_tracked(self, folder: str) -> bool:
        """Return True if the index contains a file in or below the folder."""
        begin = (folder.lower() if self.ignores_case else folder) + "/"
        at = bisect_left(self._sorted, begin)
        return at < len(self._sorted) and self._sorted[at].startswith(begin)


@dataclass(frozen=True)
class _Folder:
    """A folder to list. If `only_tracked` is True, the folder is ignored, except for the tracked files in it.

    If `kept` is True, .pipelineignore includes the folder.
    """

    path: str
    scope: _Scope
    git: tuple[Rules, ...]
    pipeline: tuple[Rules, ...]
    only_tracked: bool = False
    kept: bool = False
    found: tuple[int, int] | None = None
    """The device and the inode that the folder had in the listing of the folder above."""


def walk_project(root: Path) -> Walk:
    """Find everything under `root` that belongs to the project.

    git's rules never ignore a tracked file; `.pipelineignore` overrides git. A nested repository has its own rules and
    index. Links are recorded, but not followed.
    """
    root = resolved(root)
    top = _top_folder(root)
    scopes, walk = [top.scope], Walk()
    waiting = [top]
    entries = rules_bytes = 0
    while waiting:
        folder = waiting.pop()
        try:
            with _opened(root, folder) as fd:
                walk = walk if walk.root else replace(walk, root=real_path_of(fd))
                with os.scandir(fd) as listing:
                    listed = sorted(listing, key=lambda entry: entry.name)
                entries += len(listed)
                if entries > MAX_ENTRIES:
                    return replace(walk, scopes=tuple(scopes), cut=True)
                rules_bytes += _size_of_rules(listed)
                if rules_bytes > MAX_RULES:
                    walk.unreadable[folder.path] = f"the ignore files have more than {MAX_RULES // 2**20} MiB"
                    break
                inner = _with_rules(folder, root, {entry.name for entry in listed})
                if inner is None:
                    continue
                if inner.scope is not folder.scope:
                    scopes.append(inner.scope)
                waiting.extend(_visit_folder(inner, listed, walk, fd))
        except OSError as error:
            walk.unreadable[folder.path] = error.strerror or str(error)
    return replace(walk, scopes=tuple(scopes))


@contextlib.contextmanager
def _opened(root: Path, folder: _Folder) -> Iterator[int]:
    """Open the folder that was found. Raises OSError if another user has replaced it or a folder above it with a link.

    The entries of a listing use the descriptor until the end of the block.
    """
    fd = os.open(root / folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if folder.found not in (None, _place_of(os.fstat(fd))):
            raise OSError(errno.ESTALE, "replaced while the project was being read")
        yield fd
    finally:
        os.close(fd)


def _place_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _size_of_rules(listed: list[os.DirEntry[str]]) -> int:
    with contextlib.suppress(OSError):
        return sum(entry.stat(follow_symlinks=False).st_size for entry in listed if entry.name in RULE_FILES)
    return 0


def _visit_folder(folder: _Folder, listed: list[os.DirEntry[str]], walk: Walk, fd: int) -> Iterator[_Folder]:
    """Record the files of one folder that belong to the project, and yield the folders to list."""
    scope, prefix = folder.scope, f"{folder.path}/" if folder.path else ""
    for entry in listed:
        name = entry.name
        if name in ALWAYS_OUT or name.startswith(".#"):
            continue
        path = prefix + name
        is_folder = entry.is_dir(follow_symlinks=False)
        verdict = verdict_of(folder.pipeline, byte_text(path), byte_text(name), is_folder) if folder.pipeline else None
        out = _is_ignored(folder, path, name, is_folder) if verdict is None else verdict
        if out and (verdict or not is_folder or not scope.holds_tracked(path)):
            continue
        if not is_folder:
            _record(entry, path, walk, fd)
        elif path.count("/") >= MAX_DEPTH:
            walk.too_deep.append(path)
        else:
            found = _place_of(entry.stat(follow_symlinks=False))
            yield _Folder(path, scope, folder.git, folder.pipeline, out, kept=verdict is False, found=found)


def _is_ignored(folder: _Folder, path: str, name: str, is_folder: bool) -> bool:
    scope = folder.scope
    if not folder.only_tracked:
        git_path = byte_text(scope.above + path[len(scope.inside) :])
        if not verdict_of(folder.git, git_path, byte_text(name), is_folder):
            return False
    return not scope.is_tracked(path)


def _record(entry: os.DirEntry[str], path: str, walk: Walk, fd: int) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            walk.files[path] = status
        elif stat.S_ISLNK(status.st_mode):
            walk.links[path] = os.readlink(entry.name, dir_fd=fd)
        else:
            walk.special[path] = kind_of(status.st_mode)
    except FileNotFoundError:
        return


def kind_of(mode: int) -> str:
    """Return the kind of an entry that is not a file, folder or link."""
    kinds = ((stat.S_ISSOCK, "a socket"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISBLK, "a device"))
    return next(
        (word for test, word in kinds if test(mode)), "a device" if stat.S_ISCHR(mode) else "not a regular file"
    )


def _with_rules(folder: _Folder, root: Path, names: set[str]) -> _Folder | None:
    """Return the folder with the rules of its ignore files, or None for an untracked Python environment."""
    inside = f"{folder.path}/" if folder.path else ""
    if inside and not folder.kept and names & ENVIRONMENT_MARKS:
        if not folder.scope.holds_tracked(folder.path):
            return None
        folder = replace(folder, only_tracked=True)
    if inside and ".git" in names and not folder.only_tracked and (nested := repository_at(root / folder.path)):
        scope = _Scope(nested, inside, ignores_case=nested.ignores_case, memory=folder.scope.memory)
        folder = replace(folder, scope=scope, git=_shared_rules(nested))
    scope, git, pipeline = folder.scope, folder.git, folder.pipeline
    if ".gitignore" in names:
        at = scope.above + inside[len(scope.inside) :]
        git = (*_read_rules(root / inside / ".gitignore", at, scope.ignores_case), *git)
    if ".pipelineignore" in names:
        pipeline = (*_read_rules(root / inside / ".pipelineignore", inside, scope.ignores_case), *pipeline)
    return replace(folder, git=git, pipeline=pipeline)


def _top_folder(root: Path) -> _Folder:
    """Return the root of the walk with the rules of its repository. Rules that ignore the root have no effect."""
    repository = find_repository(root)
    if repository is None:
        return _Folder("", _Scope(), (DEFAULTS,), ())
    steps = root.relative_to(repository.work_tree).parts
    scope = _Scope(repository, above="".join(f"{step}/" for step in steps), ignores_case=repository.ignores_case)
    git = _shared_rules(repository)
    above = ""
    for step in steps:
        git = (*_read_rules(repository.work_tree / above / ".gitignore", above, scope.ignores_case), *git)
        if verdict_of(git, byte_text(above + step), byte_text(step), is_folder=True):
            return _Folder("", scope, (DEFAULTS,), ())
        above += f"{step}/"
    return _Folder("", scope, git, ())


def _shared_rules(repository: Repository) -> tuple[Rules, ...]:
    """Return the rules that apply to a whole repository, in order of precedence."""
    case = repository.ignores_case
    read = (rules for file in repository.exclude_files for rules in _read_rules(file, "", case, follow=True))
    return (*read, DEFAULTS)


def _read_rules(path: Path, folder: str, ignores_case: bool, *, follow: bool = False) -> tuple[Rules, ...]:
    """Return the rules of one ignore file, or () if it is not readable.

    As in git, a link in the work tree is not followed.
    """
    try:
        with open_regular(path, follow=follow) as file:
            rules = parse_rules(file.read(MAX_RULES) or b"", byte_text(folder), ignores_case=ignores_case)
    except OSError:
        return ()
    return (rules,) if rules.patterns else ()


def shown(path: str) -> str:
    """Return a path as printable text. Bytes that are not UTF-8 become escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
