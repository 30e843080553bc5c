"""The files that belong to a project: the files that git and .pipelineignore include. Their contents are not read."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePosixPath

from remote.project.ignore import Rules, byte_text, parse_rules, verdict_of
from remote.project.paths import is_folder, resolved
from remote.project.real_paths import real_path_of
from remote.project.repository import find_repository
from remote.project.rule_files import RuleFiles, TooManyRules
from remote.project.scope import Scope
from remote.protocol.dataclass import dataclass, field

ALWAYS_OUT = frozenset({".git", ".halfstep", "__pycache__"})
NOT_SOURCE = (
    ".hg", ".svn", ".tox", ".nox", ".venv", "node_modules", "site-packages", ".ipynb_checkpoints",
    ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis",
)  # fmt: skip
"""Folders that are left out, unless git tracks files in a folder or an ignore file includes it (`!node_modules/`).
"""
DEFAULTS = parse_rules("".join(f"{name}/\n" for name in NOT_SOURCE).encode())
ENVIRONMENT_MARKS = frozenset({"pyvenv.cfg", "conda-meta"})
MAX_DEPTH = 100
MAX_ENTRIES = 1_000_000


@dataclass(frozen=True)
class Walk:
    """Everything under a root that is not ignored. `root` is the path of the folder that was opened, without links.

    `tracked` are the files that git tracks, also those of nested repositories, each in its own.
    `special` maps the paths of other entries, such as sockets, to their kind. `unreadable` maps each folder that could
    not be listed to the reason. `cut` is True if the walk stopped at MAX_ENTRIES.
    """

    files: dict[str, os.stat_result] = field(default_factory=dict)
    tracked: set[str] = field(default_factory=set)
    links: dict[str, str] = field(default_factory=dict)
    special: dict[str, str] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    too_deep: list[str] = field(default_factory=list)
    scopes: tuple[Scope, ...] = ()
    cut: bool = False
    root: str = ""


@dataclass(frozen=True)
class _Folder:
    """A folder to list. If `only_tracked` is True, the folder is ignored, except for the tracked files in it.

    If `kept` is True, .pipelineignore includes the folder.
    """

    path: str
    scope: Scope
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
    rule_files, walk, entries = RuleFiles(), Walk(), 0
    try:
        waiting = [_top_folder(root, rule_files)]
    except TooManyRules as error:
        return Walk(unreadable={"": str(error)})
    scopes = [waiting[0].scope]
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
                inner = _with_rules(folder, root, {entry.name for entry in listed}, rule_files)
                if inner is None:
                    continue
                if inner.scope is not folder.scope:
                    scopes.append(inner.scope)
                waiting.extend(_visit_folder(inner, listed, walk, fd))
        except TooManyRules as error:
            walk.unreadable[folder.path] = str(error)
            break
        except OSError as error:
            walk.unreadable[folder.path] = error.strerror or str(error)
    return replace(walk, scopes=tuple(scopes))


class Inclusions:
    """Judges files of a project whose ignore file has more lines. The rules of the project are read once."""

    def __init__(self, root: Path) -> None:
        self._root, self._rule_files = resolved(root), RuleFiles(keeps=True)

    def would_include(self, files: Iterable[str], lines: Sequence[str]) -> bool:
        """Return True if all files would belong to the project if its own .pipelineignore ended with the lines."""
        try:
            top = self._top
            added = parse_rules("\n".join(lines).encode(), ignores_case=top.scope.ignores_case)
            entered: dict[str, _Folder | None] = {"": replace(top, pipeline=(added, *top.pipeline))}
            walked = dict.fromkeys(_up_to_link(self._root, file) for file in files)
            found = (_enter(self._root, file, entered, self._rule_files, is_folder=False) for file in walked)
            return all(one is not None for one in found)
        except TooManyRules:
            return False

    def excluding_pattern(self, path: str) -> str:
        """Return the pattern that excludes the path or a folder above it, and its kind of file, or "" if none does."""
        entered: dict[str, _Folder | None] = {"": self._top}
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            part, in_folder = "/".join(parts[:end]), is_folder(self._root / "/".join(parts[:end]))
            above = _enter(self._root, "/".join(parts[: end - 1]), entered, self._rule_files, is_folder=True)
            if above is None:
                return ""
            in_git = above.scope.in_repository(part)
            for kind, rules, name in ((".pipelineignore", above.pipeline, part), (".gitignore", above.git, in_git)):
                matches = (one.last_match(byte_text(name), byte_text(parts[end - 1]), in_folder) for one in rules)
                last = next((match for match in matches if match is not None), None)
                if last is not None and not last.negated:
                    return f"{last.glob}{'/' * last.folders_only} in {kind}"
                if last is not None:
                    break
        return ""

    @cached_property
    def _top(self) -> _Folder:
        top = _top_folder(self._root, self._rule_files)
        return _with_rules(top, self._root, _marks_in(self._root), self._rule_files) or top


def _up_to_link(root: Path, path: str) -> str:
    """Return the first link on the path, which is not followed, or the path itself."""
    above = [path, *map(str, PurePosixPath(path).parents)][-2::-1]
    return next((each for each in above if (root / each).is_symlink()), path)


def _enter(
    root: Path, path: str, entered: dict[str, _Folder | None], rule_files: RuleFiles, *, is_folder: bool
) -> _Folder | None:
    """Return the entry with the rules that apply in it, or None if it is left out. `entered`: the folders so far."""
    if path in entered:
        return entered[path]
    above, _, name = path.rpartition("/")
    outer = _enter(root, above, entered, rule_files, is_folder=True)
    verdict, out = _judge(outer, path, name, is_folder) if outer and name not in ALWAYS_OUT else (True, True)
    if outer is None or (out and (verdict or not is_folder or not outer.scope.holds_tracked(path))):
        found = None
    else:
        found = _Folder(path, outer.scope, outer.git, outer.pipeline, out, kept=verdict is False)
    if is_folder:
        entered[path] = found = _with_rules(found, root, _marks_in(root / path), rule_files) if found else None
    return found


def _marks_in(folder: Path) -> set[str]:
    """Return the names in the folder that decide which rules apply, without listing the folder."""
    names = (".gitignore", ".pipelineignore", ".git", *ENVIRONMENT_MARKS)
    return {name for name in names if os.path.lexists(folder / name)}


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


def _visit_folder(folder: _Folder, listed: list[os.DirEntry[str]], walk: Walk, fd: int) -> Iterator[_Folder]:
    """Record the files of one folder that belong to the project, and yield the folders to list."""
    scope, prefix = folder.scope, f"{folder.path}/" if folder.path else ""
    for entry in listed:
        name = entry.name
        if name in ALWAYS_OUT or name.startswith(".#"):
            continue
        path = prefix + name
        is_folder = entry.is_dir(follow_symlinks=False)
        verdict, out = _judge(folder, path, name, is_folder)
        if out and (verdict or not is_folder or not scope.holds_tracked(path)):
            continue
        if not is_folder:
            _record(entry, path, walk, fd)
            if path in walk.files and scope.is_tracked(path):
                walk.tracked.add(path)
        elif path.count("/") >= MAX_DEPTH:
            walk.too_deep.append(path)
        else:
            found = _place_of(entry.stat(follow_symlinks=False))
            yield _Folder(path, scope, folder.git, folder.pipeline, out, kept=verdict is False, found=found)


def _judge(folder: _Folder, path: str, name: str, is_folder: bool) -> tuple[bool | None, bool]:
    """Return the verdict of .pipelineignore, and whether the entry is ignored."""
    verdict = verdict_of(folder.pipeline, byte_text(path), byte_text(name), is_folder) if folder.pipeline else None
    return verdict, _is_ignored(folder, path, name, is_folder) if verdict is None else verdict


def _is_ignored(folder: _Folder, path: str, name: str, is_folder: bool) -> bool:
    scope = folder.scope
    if not folder.only_tracked:
        git_path = byte_text(scope.in_repository(path))
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


def _with_rules(folder: _Folder, root: Path, names: set[str], rule_files: RuleFiles) -> _Folder | None:
    """Return the folder with the rules of its ignore files, or None for an untracked Python environment."""
    inside = f"{folder.path}/" if folder.path else ""
    if inside and not folder.kept and names & ENVIRONMENT_MARKS:
        if not folder.scope.holds_tracked(folder.path):
            return None
        folder = replace(folder, only_tracked=True)
    if inside and ".git" in names and not folder.only_tracked:
        nested = rule_files.nested(root / folder.path, inside, folder.scope.memory)
        if nested is not None and nested.repository is not None:
            folder = replace(folder, scope=nested, git=(*rule_files.shared(nested.repository), DEFAULTS))
    scope, git, pipeline = folder.scope, folder.git, folder.pipeline
    if ".gitignore" in names:
        at = scope.in_repository(inside)
        git = (*rule_files.read(root / inside / ".gitignore", at, scope.ignores_case), *git)
    if ".pipelineignore" in names:
        pipeline = (*rule_files.read(root / inside / ".pipelineignore", inside, scope.ignores_case), *pipeline)
    return replace(folder, git=git, pipeline=pipeline)


def _top_folder(root: Path, rule_files: RuleFiles) -> _Folder:
    """Return the root of the walk with the rules of its repository. Rules that ignore the root have no effect."""
    repository = find_repository(root)
    if repository is None:
        return _Folder("", Scope(), (DEFAULTS,), ())
    steps = root.relative_to(repository.work_tree).parts
    scope = Scope(repository, above="".join(f"{step}/" for step in steps), ignores_case=repository.ignores_case)
    git = (*rule_files.shared(repository), DEFAULTS)
    above = ""
    for step in steps:
        git = (*rule_files.read(repository.work_tree / above / ".gitignore", above, scope.ignores_case), *git)
        if verdict_of(git, byte_text(above + step), byte_text(step), is_folder=True):
            return _Folder("", scope, (DEFAULTS,), ())
        above += f"{step}/"
    return _Folder("", scope, git, ())


def shown(path: str) -> str:
    """Return a path as printable text. Bytes that are not UTF-8 become escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
