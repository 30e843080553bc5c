"""The stream of a sync: an index, then the contents, which are staged under their digests and verified."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from remote.payload.request.refusal import Refusal
from remote.payload.tree.paths import check_link, check_path, folder_of
from remote.payload.tree.state import FileStamp, Project, digest_of_file, stamp_of
from remote.payload.tree.survey import staged_digests
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.quantities import size as size_text
from remote.protocol.shell import on_host
from remote.protocol.tree import SPARE_BYTES

MAX_INDEX = 256 * 2**20
SPARE_INODES = 64
DIGEST = re.compile(r"[0-9a-f]{64}")
FULL = {errno.ENOSPC, errno.EDQUOT}


class InputStream:
    """Reads from an iterator of byte strings of any size."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def read_some(self, limit: int) -> memoryview:
        """Read 1 to `limit` bytes. Raises Refusal at the end of the stream."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                raise Refusal("torn", "the stream ended before its last file", exit_code=ExitCode.TEMPORARY)
            self._rest = memoryview(piece)
        head, self._rest = self._rest[:limit], self._rest[limit:]
        return head

    def read_exactly(self, size: int) -> bytes:
        out = bytearray()
        while len(out) < size:
            out += self.read_some(size - len(out))
        return bytes(out)

    def finish(self) -> None:
        """Read the stream to its end, so that the next request can be read."""
        for _ in self._pieces:
            pass


class IndexEntry(NamedTuple):
    """One path of the new tree. If `put` is False, only its mode changes."""

    path: str
    digest: str
    mode: int
    size: int
    link: str
    put: bool = True


@dataclass(frozen=True)
class Index:
    """New and changed paths, deleted paths, and the (digest, size) of the contents that follow the index."""

    entries: Tuple[IndexEntry, ...]
    deletes: Tuple[str, ...]
    contents: Tuple[Tuple[str, int], ...]

    @property
    def needed(self) -> Set[str]:
        """The contents that must be in staging before any file is placed."""
        return {entry.digest for entry in self.entries if entry.put and not entry.link}

    @property
    def inodes(self) -> int:
        """The maximum number of files and folders that this index may create."""
        return len(self.entries) + len({folder_of(entry.path) for entry in self.entries})


def read_head(stream: InputStream) -> Any:
    """Read the JSON at the head of a stream. Raises Refusal if it is too large or not valid."""
    size = int.from_bytes(stream.read_exactly(8), "big")
    if size > MAX_INDEX:
        raise Refusal("too-large", f"an index of {size} bytes is too large", exit_code=ExitCode.SYNC)
    try:
        return json.loads(stream.read_exactly(size).decode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise _bad_index(error) from None


def read_index(stream: InputStream) -> Index:
    """Read the index at the head of a stream and check every path in it. Raises Refusal if the index is not valid."""
    data = read_head(stream)
    try:
        return Index(
            tuple(_parse_entry(row) for row in data["rows"]),
            tuple(check_path(path) for path in data["deletes"]),
            parse_contents(data["contents"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise _bad_index(error) from None


def parse_contents(data: Any) -> Tuple[Tuple[str, int], ...]:
    """Parse (digest, size) of the contents that follow. Raises ValueError or TypeError for other values."""
    return tuple((checked_digest(digest), int(length)) for digest, length in data)


def _bad_index(error: Exception) -> Refusal:
    return Refusal("bad-index", f"not an index: {error}", exit_code=ExitCode.BUG)


def _parse_entry(row: List[Any]) -> IndexEntry:
    path, digest, mode, size, link, put = row
    check_path(path)
    if link:
        check_link(path, link)
    return IndexEntry(path, checked_digest(digest), 0o755 if mode & 0o100 else 0o644, int(size), str(link), bool(put))


def checked_digest(text: str) -> str:
    if not DIGEST.fullmatch(text):
        raise ValueError(f"{text!r} is not a SHA-256 digest")
    return text


def check_space(folder: str, need: int, files: int) -> None:
    """Raise Refusal if the file system has no space for `need` bytes in `files` files."""
    status = os.statvfs(folder)
    free, free_inodes = status.f_bavail * status.f_frsize, status.f_favail
    if need + (SPARE_BYTES if need else 0) > free:
        raise _no_space(folder, f"{size_text(need)} and {size_text(SPARE_BYTES)} in reserve", free)
    if status.f_files and files + SPARE_INODES > free_inodes:
        raise Refusal(
            "no-inodes",
            f"not enough inodes on {folder}: {files} files, {free_inodes} inodes free",
            where=folder,
            hint=on_host("df -i {}", folder),
            exit_code=ExitCode.DISK,
        )


def _no_space(folder: str, need: str, free: int) -> Refusal:
    return Refusal(
        "no-space",
        f"no space left on {folder} (file system {mount_of(folder)}): need {need}, free {size_text(free)}",
        where=folder,
        hint=on_host("df -h {}", folder),
        exit_code=ExitCode.DISK,
    )


def mount_of(folder: str) -> str:
    """Return the mount point of the file system that contains `folder`."""
    parent = os.path.realpath(folder)
    while parent != "/" and not os.path.ismount(parent):
        parent = os.path.dirname(parent)
    return parent


@dataclass(frozen=True)
class Staged:
    """The stamps of staged contents, and the digests of contents that arrived damaged or not at all."""

    stamps: Dict[str, FileStamp]
    torn: Set[str]


def stage(
    project: Project,
    stream: InputStream,
    contents: Sequence[Tuple[str, int]],
    needed: Set[str],
    inodes: int,
    keep_alive: Callable[[], None],
) -> Staged:
    """Stage every content of the stream, and reuse the `needed` contents that an interrupted sync left in staging.

    Raises Refusal if the disk is full.
    """
    os.makedirs(project.staging, mode=0o700, exist_ok=True)
    need = sum(size for _, size in contents)
    check_space(project.root, need, inodes)
    stamps: Dict[str, FileStamp] = {}
    torn: Set[str] = set()
    try:
        for digest, size in contents:
            stamp = receive_one(f"{project.staging}/{digest}", stream, digest, size)
            if stamp is None:
                torn.add(digest)
            else:
                stamps[digest] = stamp
    except OSError as error:
        if error.errno in FULL:
            shutil.rmtree(project.staging, ignore_errors=True)
        raise disk_error(project.root, error, need) from None
    _reuse_staged(project, needed, stamps, torn, keep_alive)
    return Staged(stamps, torn)


def receive_one(path: str, stream: InputStream, digest: str, size: int) -> Optional[FileStamp]:
    """Write the next `size` bytes to `path` and return its stamp.

    On a wrong digest, remove the file and return None.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    try:
        received = hashlib.sha256()
        left = size
        while left:
            piece = stream.read_some(left)
            received.update(piece)
            left -= len(piece)
            while piece:
                piece = piece[os.write(descriptor, piece) :]
        if received.hexdigest() == digest:
            return stamp_of(os.fstat(descriptor))
    finally:
        os.close(descriptor)
    os.unlink(path)
    return None


def _reuse_staged(
    project: Project, needed: Set[str], stamps: Dict[str, FileStamp], torn: Set[str], keep_alive: Callable[[], None]
) -> None:
    missing = sorted(needed - stamps.keys() - torn)
    staged = staged_digests(project) if missing else {}
    for digest in missing:
        path = os.path.join(project.staging, digest)
        if digest in staged and digest_of_file(path) == digest:
            stamps[digest] = stamp_of(os.lstat(path))
        else:
            if digest in staged:
                os.unlink(path)
            torn.add(digest)
        keep_alive()


def disk_error(folder: str, error: OSError, need: int) -> BaseException:
    """If `error` means that the disk is full, return a Refusal with the needed and the free space.

    Otherwise return `error`.
    """
    if error.errno not in FULL:
        return error
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if error.errno == errno.EDQUOT:
        return Refusal(
            "quota",
            f"over the disk quota in {folder}: need {size_text(need)}; the file system has {size_text(free)} free",
            where=folder,
            hint="quota -s",
            exit_code=ExitCode.DISK,
        )
    if status.f_files and status.f_favail == 0:
        return Refusal("no-inodes", f"no inodes left on {folder}", where=folder, exit_code=ExitCode.DISK)
    return _no_space(folder, size_text(need), free)
