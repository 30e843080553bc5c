"""The git repository of a folder: its work tree, index, settings and shared ignore files.

Follows gitrepository-layout(5) and git-config(1). In linked work trees and submodules `.git` is a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path

from remote.project.git import GitOverran, run_git
from remote.project.git_index import IndexMemory, read_index
from remote.project.paths import expanded, is_file, is_folder
from remote.protocol.dataclass import dataclass

SETTINGS = r"^(core\.(excludesfile|ignorecase)|extensions\.objectformat)$"
NO_MATCH = 1
DEADLINE_S = 10
REPOSITORY_DEADLINE_S = 5.0
"""git reads the settings of a repository in milliseconds, but waits without end for a FIFO in place of a file.

Each repository without an answer halves the deadline, so that a project with many of them costs less than 10 s.
"""
MAX_POINTER = 2**16
MOST_BYTES = 2**20
"""The maximum size of the settings that git prints. A file that includes another one many times can repeat it."""
_SILENT = set[Path]()
"""The repositories for which git exceeded its deadline or its limit in this process."""


@dataclass(frozen=True)
class Repository:
    """A repository.

    `work_tree` contains the files, `git_folder` the index, `common_folder` the data that linked work trees share.
    """

    work_tree: Path
    git_folder: Path
    common_folder: Path

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """The settings that affect which files are ignored, by lower-case name. Empty if git is not installed.

        If git cannot read those of the repository, these are the user's own settings.
        """
        own = self._own_settings
        return own if own is not None else _read_settings(Path(os.devnull), DEADLINE_S) or {}

    @cached_property
    def _own_settings(self) -> Mapping[str, str] | None:
        return _read_settings(self.git_folder, REPOSITORY_DEADLINE_S / 2 ** len(_SILENT))

    @property
    def is_readable(self) -> bool:
        """False if git fails, or exceeds the deadline, for example because its configuration is or includes a FIFO."""
        return self._own_settings is not None

    @property
    def ignores_case(self) -> bool:
        return self.settings.get("core.ignorecase", "").lower() in {"true", "yes", "on", "1"}

    @property
    def exclude_files(self) -> tuple[Path, ...]:
        """The ignore files outside the work tree, in order of precedence."""
        named = self.settings.get("core.excludesfile")
        if named is None:
            base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
            named = f"{base}/git/ignore"
        personal = (self.work_tree / expanded(named),) if named else ()
        return (self.common_folder / "info" / "exclude", *personal)

    def tracked_paths(self, memory: IndexMemory | None = None) -> frozenset[str]:
        """Return every path in the index, in POSIX form and relative to the work tree; see `read_index`."""
        sha256 = self.settings.get("extensions.objectformat", "").lower() == "sha256"
        return read_index(self.git_folder, memory, hash_bytes=32 if sha256 else 20)


def find_repository(folder: Path) -> Repository | None:
    """Return the innermost repository whose work tree contains the absolute path `folder`, or None."""
    repository = (repository_at(one) for one in (folder, *folder.parents))
    return next((one for one in repository if one is not None), None)


def repository_at(folder: Path) -> Repository | None:
    """Return the repository whose work tree is `folder`, or None if git would not accept `folder` as a repository.

    Git does not accept a repository of another user either: its settings and its index decide which files are sent.
    """
    dot_git = folder / ".git"
    try:
        if _foreign_owner(folder) is not None:
            return None
        git_folder = _pointer(dot_git, "gitdir:") if is_file(dot_git) else dot_git
        if git_folder is None or not os.path.lexists(git_folder / "HEAD"):
            return None
        shared = git_folder / "commondir"
        common = (_pointer(shared) if is_file(shared) else None) or git_folder
        whole = is_folder(common / "objects") and is_folder(common / "refs")
    except OSError:
        return None
    return Repository(folder, git_folder, common) if whole else None


def foreign_owner(folder: Path) -> int | None:
    """Return the id of another user who owns the repository in `folder`, or None if git would accept its owner.

    Git accepts the user's own folders and those in the setting `safe.directory` (git-config(1)); under sudo, also those
    of the user who ran it. Folders of root are accepted too.
    """
    try:
        return _foreign_owner(folder)
    except OSError:
        return None


def _foreign_owner(folder: Path) -> int | None:
    """Like `foreign_owner`, but raise OSError if `.git` is missing or unreadable, because it may reappear later."""
    dot_git = folder / ".git"
    sudo = os.environ.get("SUDO_UID", "") if os.geteuid() == 0 else ""
    accepted = {str(os.geteuid()), "0", sudo}
    owner = next((one for one in _owners(dot_git) if str(one) not in accepted), None)
    return None if owner is None or _is_safe_directory(folder) else owner


def _owners(dot_git: Path) -> Iterator[int]:
    """Yield the owners of `.git`, of its target if `.git` is a link, and of the folder that a `.git` file names."""
    yield dot_git.lstat().st_uid
    yield dot_git.stat().st_uid
    if is_file(dot_git) and (target := _pointer(dot_git, "gitdir:")):
        yield target.stat().st_uid


def find_foreign(folder: Path) -> tuple[Path, int] | None:
    """Return the innermost `.git` of another user above `folder`, or in it, and the owner's id, or None.

    Folders above an accepted repository are not searched.
    """
    for place in (folder, *folder.parents):
        owner = foreign_owner(place)
        if owner is not None:
            return place / ".git", owner
        if repository_at(place) is not None:
            return None
    return None


@cache
def _is_safe_directory(folder: Path) -> bool:
    try:
        # Without a repository, git reads only the settings of the user and of the system.
        values = _git_config(Path(os.devnull), DEADLINE_S, "--get-all", "safe.directory") or []
    except GitOverran:
        return False
    safe = False
    for value in values:
        inside = value.endswith("/*") and folder.is_relative_to(value[:-2])
        safe = value != "" and (safe or value == "*" or inside or expanded(value) == folder)
    return safe


def _pointer(file: Path, prefix: str = "") -> Path | None:
    """Return the folder that a `.git` or `commondir` file names, or None. Relative paths start at the file's folder."""
    with file.open("rb") as opened:
        text = os.fsdecode(opened.read(MAX_POINTER))
    if not text.startswith(prefix) or "\0" in text:
        return None
    return file.parent / text.removeprefix(prefix).strip()


def _read_settings(git_folder: Path, deadline_s: float) -> dict[str, str] | None:
    """Return the settings, {} if git is not installed, or None if git fails or exceeds the deadline."""
    if git_folder in _SILENT:
        return None
    try:
        rows = _git_config(git_folder, deadline_s, "--get-regexp", SETTINGS)
    except GitOverran:
        _SILENT.add(git_folder)
        return None
    if rows is None:
        return None
    settings: dict[str, str] = {}
    for row in rows:
        key, separator, value = row.partition("\n")
        settings[key.lower()] = value if separator else "true"
    return settings


def _git_config(git_folder: Path, deadline_s: float, *query: str) -> list[str] | None:
    """Return what `git config` prints, [] if git is not installed, or None if git fails. Raises GitOverran."""
    try:
        status, printed = run_git(git_folder, ("config", "--null", *query), deadline_s, MOST_BYTES, {})
    except OSError:
        return []
    return printed.split("\0")[:-1] if status in (0, NO_MATCH) else None
