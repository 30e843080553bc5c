"""The data of `data.path:` in a config, which is sent separately from the code: its files and its digest."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import FileIO
from pathlib import Path

from remote.errors import DataUntrusted, SyncRefused
from remote.project.digests import (
    CachedDigest,
    FileIdentity,
    StillChanging,
    digest_file,
    open_judged,
    read_digest_cache,
    read_judged,
    write_digest_cache,
)
from remote.project.included_files import shown
from remote.project.paths import exists, is_file, is_folder, resolved
from remote.project.real_paths import is_inside
from remote.project.secrets import secret_by_name
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity

MEMORY = "data.json"
OUT = frozenset({".git", ".halfstep", "__pycache__", ".DS_Store"})
SHELL = frozenset("$`'\"\\;&|<>")
"""Characters with which a name in an unquoted or wrongly quoted shell command could run another command."""

MAX_LEVELS = 64
"""The maximum number of folders above the target of a link, and of folders in one another in the data.

Resolving links takes time that grows with the depth of their targets, and no data is as deep.
"""
ANNEX = ["annex", "objects"]


@dataclass(frozen=True)
class DataScan:
    """Local data: a folder or one file. `files` maps names to (digest, size), `judged` names to the scanned file.

    `digest` identifies the data on a host.
    """

    root: Path
    files: Mapping[str, tuple[str, int]]
    digest: str
    report: Report
    judged: Mapping[str, FileIdentity]

    @property
    def size_bytes(self) -> int:
        return sum(size for _, size in self.files.values())

    def opened(self, name: str) -> FileIO:
        """Open a file as it was scanned. Raises OSError if it has changed, or if another file is in its place."""
        path = self.root / name if is_folder(self.root) else self.root
        return open_judged(path, self.judged[name], follow=True)

    def read_scanned(self, name: str) -> bytes:
        """Read a file as it was scanned. Raises SyncRefused if it has changed, or if another file is in its place."""
        return read_judged(lambda: self.opened(name), name, self.files[name][0])


def scan_data(root: Path, memory: Path | None = None, *, confirmed: Sequence[Path] | None = None) -> DataScan:
    """Scan the data at `root`, a folder or a file. Links are followed. Raises SyncRefused if the data cannot be read.

    `confirmed` are the resolved folders from which data may be sent; None permits all. Raises DataUntrusted if a file
    is opened that is in none of them, because another user may have placed a link after the user's confirmation.
    `memory` is a folder for cached digests, so that unchanged data is not read again. A file that looks like a secret,
    by its name, its link target or its content, is left out with a warning. Raises SyncRefused if no file is left.
    """
    if not exists(root):
        raise SyncRefused(f"{root} does not exist", where="data.path", hint="set `data.path:` in the config")
    if why := _inside_git(resolved(root)):
        raise SyncRefused(f"{root} is not data: {why}", where="data.path", hint="set `data.path:` to a folder of data")
    known = read_digest_cache(memory, MEMORY) if memory else {}
    fresh: dict[str, CachedDigest] = {}
    files: dict[str, tuple[str, int]] = {}
    judged: dict[str, FileIdentity] = {}
    findings: list[Finding] = []
    judge = _secret_by_real_path if confirmed is None else partial(_judge_real_path, confirmed)
    for name, path in sorted(_list_files(root)):
        why = _secret_by_path(name, path)
        if not why:
            one, judged[name] = _digest_of(path, known.get(str(path)), judge)
            fresh[str(path)] = one
            why = one.secret
        if why:
            findings.append(_left_out(name, why))
        else:
            files[name] = (one.digest, one.look[0])
    if memory and fresh != known:
        write_digest_cache(memory, fresh, MEMORY)
    if findings and not files:
        message = f"no file of {root} may be sent: {findings[0].message}"
        raise SyncRefused(message, where="data.path", hint="set `data.path:` to a folder that holds only data")
    text = json.dumps(files, sort_keys=True, separators=(",", ":")).encode("utf-8", "surrogateescape")
    return DataScan(root, files, hashlib.sha256(text).hexdigest(), Report(tuple(findings)), judged)


def outside_of(root: Path, project: Path) -> Iterator[Path]:
    """Yield the real folders outside `project` from which data at `root` would be read:

    `root` itself, the folders that `scan_data` enters, and the folders of linked files, since every link is followed. A
    folder is yielded before it is entered, so that nothing in it is read if the caller stops. A folder in a folder that
    was yielded before is left out. Raises SyncRefused for a link to a place that is too deep.
    """
    known = {str(project)}
    for place in _places(root):
        if not _is_in(place, known):
            known.add(place)
            yield Path(place)


def _places(root: Path) -> Iterator[str]:
    """Yield the real path of `root`, and for each link in the data the real folder with the linked data.

    Links that lead nowhere are left out.
    """
    yield str(resolved(root))
    for folder, folders, names in _walk(root):
        for name in (*folders, *names):
            path = f"{folder.removesuffix('/')}/{name}"
            if os.path.islink(path):  # noqa: PTH114 (a path object for each of a million files takes seconds)
                _judge_depth(path, os.readlink(path))  # noqa: PTH115 (as above)
                if exists(path):
                    real = str(resolved(path))
                    _judge_depth(path, real)
                    yield real if is_folder(real) else real.rpartition("/")[0] or "/"


def _judge_depth(link: str, target: str) -> None:
    if target.count("/") > MAX_LEVELS:
        message = f"{link} is a link whose target is nested more than {MAX_LEVELS} folders deep"
        raise SyncRefused(message, where=shown(link), hint="replace the link with the data")


def _is_in(place: str, known: Collection[str]) -> bool:
    """Return True if the absolute path, or a folder above it, is known."""
    while place not in known:
        if place == "/":
            return False
        place = place.rpartition("/")[0] or "/"
    return True


def judge_upload_names(places: Iterable[Path]) -> Iterator[Finding]:
    """Yield a finding if one of the places has characters of a shell.

    The tools of a cloud put such paths into shell commands, and some do not quote them.
    """
    special = [path for path in places if has_shell_characters(str(path))]
    if special:
        message = "the path has characters that a tool of the cloud may run as a shell command"
        yield Finding("upload-name", Severity.ERROR, message, shown(str(special[0])), "rename it", ExitCode.SYNC)


def has_shell_characters(name: str) -> bool:
    return not name.isprintable() or not SHELL.isdisjoint(name)


def _secret_by_path(name: str, path: Path) -> str:
    return secret_by_name(name) or _secret_by_real_path(str(resolved(path)))


def _secret_by_real_path(real: str) -> str:
    return secret_by_name(real) or _inside_git(Path(real))


def _judge_real_path(confirmed: Sequence[Path], real: str) -> str:
    """Return why the file with this real path must not be sent, or "". Raises DataUntrusted."""
    if not is_inside(real, confirmed):
        message = f"{real} is in a folder that you have not confirmed: the data changed after the confirmation"
        raise DataUntrusted(f"{message}; nothing was sent", where="data.path", hint="run the command again")
    return _secret_by_real_path(real)


def _inside_git(real: Path) -> str:
    """Return why files at this path are not sent, or "" if they are sent.

    Files in a `.git` folder are not sent, because they may contain credentials. The objects of git-annex are an
    exception: they are data, and the files of a work tree are links to them.
    """
    parts = [part.lower() for part in real.parts]
    places = (at for at, part in enumerate(parts) if part == ".git")
    return "a git folder may hold credentials" if any(parts[at + 1 : at + 3] != ANNEX for at in places) else ""


def _digest_of(
    path: Path, known: CachedDigest | None, judge: Callable[[str], str]
) -> tuple[CachedDigest, FileIdentity]:
    try:
        return digest_file(path, path.name, follow=True, judge_path=judge, known=known)
    except StillChanging:
        raise SyncRefused(f"{path} kept changing while it was being read", where=shown(str(path))) from None
    except OSError as error:
        raise SyncRefused(f"{path} cannot be read: {error.strerror}", where=shown(str(path))) from None


def _list_files(root: Path) -> Iterator[tuple[str, Path]]:
    if is_file(root):
        yield root.name, root
        return
    for folder, _, names in _walk(root):
        for name in names:
            path = Path(folder, name)
            yield path.relative_to(root).as_posix(), _regular(path)


def _walk(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each folder of the data once, with the names of its folders and files, before these folders are entered.

    Links to folders are followed. Raises SyncRefused below MAX_LEVELS folders.
    """
    entered: set[tuple[int, int]] = set()
    waiting, top = [str(root)], str(root).count("/")
    while waiting:
        folder = waiting.pop()
        place = _place_of(folder)
        if place is None or place in entered:  # judged before the folder is listed: thousands of links may lead to it
            continue
        entered.add(place)
        if folder.count("/") - top > MAX_LEVELS:
            message = f"the data has more than {MAX_LEVELS} folders, one in the other"
            raise SyncRefused(message, where=shown(folder), hint="set `data.path:` to a folder of data")
        folders, names = _listed(folder)
        yield folder, folders, names
        waiting += [os.path.join(folder, name) for name in reversed(folders)]  # noqa: PTH118 (as above)


def _place_of(folder: str) -> tuple[int, int] | None:
    """Return the device and the inode of a folder, or None if it cannot be reached."""
    try:
        status = os.stat(folder)  # noqa: PTH116 (as above)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _listed(folder: str) -> tuple[list[str], list[str]]:
    """Return the sorted names of the folders, and the names of the other entries. An unreadable folder has none."""
    folders: list[str] = []
    names: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as listing:
        for entry in listing:
            if entry.name not in OUT:
                (folders if _is_folder(entry) else names).append(entry.name)
    return sorted(folders), names


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _regular(path: Path) -> Path:
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        raise SyncRefused(f"{path} cannot be read: {error.strerror}", where=shown(str(path))) from None
    if not regular:
        raise SyncRefused(f"{path} is not a regular file", where=shown(str(path)), hint="move it out of the data")
    return path


def _left_out(name: str, why: str) -> Finding:
    message = f"{name!r} is not sent with the data: {why}"
    hint = "if it is a secret, move it out of the data; if not, write ${NAME} or <name> instead of the value"
    return Finding("secret-file", Severity.WARNING, message, shown(name), hint)
