"""The stream of a sync as it arrives: an index of what is meant, then the contents, staged by digest and verified."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from remote.payload.request.refusal import Refusal
from remote.payload.tree.paths import check_link, check_path, folder_of
from remote.payload.tree.state import Look, Project, digest_of_file, look_at
from remote.payload.tree.survey import staged_digests
from remote.protocol.exits import ExitCode

MAX_INDEX = 256 * 2**20
SPARE_BYTES = 16 * 2**20
SPARE_INODES = 64
DIGEST = re.compile(r"[0-9a-f]{64}")
FULL = {errno.ENOSPC, errno.EDQUOT}


class Inflow:
    """Exactly as many bytes as asked for, out of pieces of any size."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def some(self, limit: int) -> memoryview:
        """1 to `limit` bytes. Raises Refusal where the stream ends before them."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                raise Refusal("torn", "the stream ended before its last file", exit_code=ExitCode.TEMPORARY)
            self._rest = memoryview(piece)
        head, self._rest = self._rest[:limit], self._rest[limit:]
        return head

    def exactly(self, size: int) -> bytes:
        out = bytearray()
        while len(out) < size:
            out += self.some(size - len(out))
        return bytes(out)

    def finish(self) -> None:
        """The stream was read to its end, so that the line stays in step."""
        for _ in self._pieces:
            pass


class Wanted(NamedTuple):
    """One path as it shall be. `put` False: the bytes are there already and only the mode is new."""

    path: str
    digest: str
    mode: int
    size: int
    link: str
    put: bool = True


@dataclass(frozen=True)
class Index:
    """What a stream means: paths as they shall be, paths that go, and the contents that follow, as (digest, size)."""

    wanted: Tuple[Wanted, ...]
    deletes: Tuple[str, ...]
    contents: Tuple[Tuple[str, int], ...]

    @property
    def needed(self) -> Set[str]:
        """The contents that must be in staging before anything is placed."""
        return {wanted.digest for wanted in self.wanted if wanted.put and not wanted.link}

    @property
    def inodes(self) -> int:
        """How many files and folders this may make."""
        return len(self.wanted) + len({folder_of(wanted.path) for wanted in self.wanted})


def read_head(inflow: Inflow) -> Any:
    """The JSON at the head of a stream. Raises Refusal."""
    size = int.from_bytes(inflow.exactly(8), "big")
    if size > MAX_INDEX:
        raise Refusal("too-large", f"an index of {size} bytes", exit_code=ExitCode.SYNC)
    try:
        return json.loads(inflow.exactly(size).decode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise _bad_index(error) from None


def read_index(inflow: Inflow) -> Index:
    """The index at the head of a stream, with every name checked. Raises Refusal."""
    data = read_head(inflow)
    try:
        return Index(
            tuple(_wanted(row) for row in data["rows"]),
            tuple(check_path(path) for path in data["deletes"]),
            parse_contents(data["contents"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise _bad_index(error) from None


def parse_contents(data: Any) -> Tuple[Tuple[str, int], ...]:
    """(digest, size) of the contents that follow. Raises ValueError, TypeError."""
    return tuple((checked_digest(digest), int(length)) for digest, length in data)


def _bad_index(error: Exception) -> Refusal:
    return Refusal("bad-index", f"not an index: {error}", exit_code=ExitCode.BUG)


def _wanted(row: List[Any]) -> Wanted:
    path, digest, mode, size, link, put = row
    check_path(path)
    if link:
        check_link(path, link)
    return Wanted(path, checked_digest(digest), 0o755 if mode & 0o100 else 0o644, int(size), str(link), bool(put))


def checked_digest(text: str) -> str:
    if not DIGEST.fullmatch(text):
        raise ValueError(f"{text!r} is no SHA-256")
    return text


def check_space(folder: str, need: int, files: int) -> None:
    """There is room for `need` bytes in `files` files. Raises Refusal with need and free, and where."""
    status = os.statvfs(folder)
    free, free_inodes = status.f_bavail * status.f_frsize, status.f_favail
    if need + (SPARE_BYTES if need else 0) > free:
        raise _no_space(folder, f"{amount(need)} and {amount(SPARE_BYTES)} in reserve", free)
    if status.f_files and files + SPARE_INODES > free_inodes:
        raise Refusal(
            "no-inodes",
            f"no inodes left on {folder}: {files} files need as many and {free_inodes} are free",
            where=folder,
            hint=f"df -i {folder}",
            exit_code=ExitCode.DISK,
        )


def _no_space(folder: str, need: str, free: int) -> Refusal:
    return Refusal(
        "no-space",
        f"no space left on {folder} (file system {mount_of(folder)}): need {need}, free {amount(free)}",
        where=folder,
        hint=f"df -h {folder}",
        exit_code=ExitCode.DISK,
    )


def mount_of(folder: str) -> str:
    """Where the file system that holds `folder` is mounted."""
    here = os.path.realpath(folder)
    while here != "/" and not os.path.ismount(here):
        here = os.path.dirname(here)
    return here


def amount(size: int) -> str:
    """1,234,567 bytes as '1.2 MB', and little as something other than 0.0."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1e6:.1f} MB" if size >= 10**5 else f"{size / 1e3:.1f} kB"


@dataclass(frozen=True)
class Staged:
    """Contents that are in staging, with what their files looked like then, and those that were torn on the way."""

    looks: Dict[str, Look]
    torn: Set[str]


def stage(
    project: Project,
    inflow: Inflow,
    contents: Sequence[Tuple[str, int]],
    needed: Set[str],
    inodes: int,
    alive: Callable[[], None],
) -> Staged:
    """Every content of the stream lies in staging under its digest, and all `needed` that a cut sync left behind.

    Raises Refusal where the disk is full.
    """
    os.makedirs(project.staging, mode=0o700, exist_ok=True)
    need = sum(size for _, size in contents)
    check_space(project.root, need, inodes)
    looks: Dict[str, Look] = {}
    torn: Set[str] = set()
    try:
        for digest, size in contents:
            look = receive_one(f"{project.staging}/{digest}", inflow, digest, size)
            if look is None:
                torn.add(digest)
            else:
                looks[digest] = look
    except OSError as error:
        if error.errno in FULL:
            shutil.rmtree(project.staging, ignore_errors=True)
        raise disk_error(project.root, error, need) from None
    _adopt_left_over(project, needed, looks, torn, alive)
    return Staged(looks, torn)


def receive_one(path: str, inflow: Inflow, digest: str, size: int) -> Optional[Look]:
    """The next `size` bytes lie at `path`, with how it looks then; None, and no file, where their digest is another."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    try:
        whole = hashlib.sha256()
        left = size
        while left:
            piece = inflow.some(left)
            whole.update(piece)
            left -= len(piece)
            while piece:
                piece = piece[os.write(descriptor, piece) :]
        if whole.hexdigest() == digest:
            return look_at(os.fstat(descriptor))
    finally:
        os.close(descriptor)
    os.unlink(path)
    return None


def _adopt_left_over(
    project: Project, needed: Set[str], looks: Dict[str, Look], torn: Set[str], alive: Callable[[], None]
) -> None:
    missing = sorted(needed - looks.keys() - torn)
    left_over = staged_digests(project) if missing else {}
    for digest in missing:
        path = os.path.join(project.staging, digest)
        if digest in left_over and digest_of_file(path) == digest:
            looks[digest] = look_at(os.lstat(path))
        else:
            if digest in left_over:
                os.unlink(path)
            torn.add(digest)
        alive()


def disk_error(folder: str, error: OSError, need: int) -> BaseException:
    """The error in words a person can act on, where it says that a disk is full."""
    if error.errno not in FULL:
        return error
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if error.errno == errno.EDQUOT:
        return Refusal(
            "quota",
            f"over the disk quota in {folder}: need {amount(need)}; the file system itself shows {amount(free)} free",
            where=folder,
            hint="quota -s",
            exit_code=ExitCode.DISK,
        )
    if status.f_files and status.f_favail == 0:
        return Refusal("no-inodes", f"no inodes left on {folder}", where=folder, exit_code=ExitCode.DISK)
    return _no_space(folder, amount(need), free)
