"""Local copies of a run's growing files. Each copy is a prefix of the host's file.

Event files end with a complete record. A file that was replaced on the host continues under a new name
(`NAME.replaced-2`), and the old copy is kept. The same bytes may arrive twice, from simultaneous pulls or after a lost
connection. Bytes that exist locally are compared and skipped.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from remote.errors import PullRefused
from remote.protocol.dataclass import dataclass
from remote.protocol.events import MARK
from remote.protocol.layout import OUTPUT
from remote.protocol.records import complete_prefix, read_records, scan_file
from remote.protocol.segments import tail_digest
from remote.pull.folder import Folder
from remote.pull.names import REPLACED

TAIL_CHECKED = 2**20
MAX_VERSIONS = 20
MAX_FILE_BYTES = 512 * 2**20
MAX_TOTAL_BYTES = 5 * 2**30

Want = tuple[str, int, str]


@dataclass(frozen=True)
class Appended:
    """The result of an append: the local name, its new size, and the number of new bytes."""

    local: str
    size_bytes: int
    added_bytes: int


class Mirror:
    """The mirror in one folder. `wants` returns the end of each file, and `append` extends a file.

    If `framed` is True, the files consist of records, and only complete records are kept.
    """

    def __init__(self, folder: Folder, *, framed: bool = True) -> None:
        self._folder = folder
        self._framed = framed
        self._locals: dict[str, str] = {}
        self._total_bytes: int | None = None

    def wants(self, names: Iterable[str]) -> list[Want]:
        """Return for each name the offset of its next record, and the `tail_digest` at it.

        Truncate incomplete records.
        """
        with self._folder.locked():
            return [self._want(name) for name in names]

    def local(self, name: str) -> str:
        """Return the current local name of a file."""
        return self._locals.get(name, name)

    def append(self, name: str, offset: int, data: bytes, *, fresh: bool) -> Appended:
        """Write the bytes at `offset` of the file. `fresh` is True if the host's file was replaced.

        Raises PullRefused if the data is not made of complete records, leaves a gap, differs from the local file, or
        exceeds a limit.
        """
        if self._framed and complete_prefix(data).size_bytes != len(data):
            raise PullRefused(f"the host sent records of {name} whose checksums are wrong", where=name)
        if offset < 0 or offset + len(data) > MAX_FILE_BYTES:
            raise PullRefused(f"{name} is over the limit of {MAX_FILE_BYTES} bytes a file", where=name)
        total = self._total_bytes = self._present_bytes() if self._total_bytes is None else self._total_bytes
        if total + len(data) > MAX_TOTAL_BYTES:
            raise PullRefused(f"with {name}, the run's local files would exceed {MAX_TOTAL_BYTES} bytes", where=name)
        with self._folder.locked():
            local = self._place(name, offset, data, fresh)
            self._locals[name] = local
            landed = self._append(local, offset, data)
        self._total_bytes = total + landed.added_bytes
        return landed

    def _present_bytes(self) -> int:
        """Return the size of all local event files, or of all local output, including earlier downloads."""
        total = 0
        for root, _, leaves in os.walk(self._folder.path):
            for leaf in leaves:
                if MARK in leaf if self._framed else leaf.startswith(OUTPUT):
                    with contextlib.suppress(FileNotFoundError):
                        total += Path(root, leaf).lstat().st_size
        return total

    def records(self, local: str) -> Iterator[bytes]:
        """Yield the complete records of a local file, one block at a time."""
        with self._folder.reading(local) as fd:
            if fd is None:
                return
            offset = 0
            while part := read_records(fd, offset)[0]:
                yield part
                offset += len(part)

    def _want(self, name: str) -> Want:
        local = self.newest(name)
        self._locals[name] = local
        with self._folder.reading(local) as fd:
            if fd is None:
                return (name, 0, "")
        with self._folder.opened(local) as fd:
            size = _complete_size(fd) if self._framed else os.fstat(fd).st_size
            if size < os.fstat(fd).st_size:
                os.ftruncate(fd, size)
            return (name, size, tail_digest(fd, size))

    def _place(self, name: str, offset: int, data: bytes, fresh: bool) -> str:
        """Return the local name of the file to which these bytes belong."""
        ours, newest = self.local(name), self.newest(name)
        if offset > 0:
            return ours
        if fresh and newest == ours:
            return self._next_version(name) if self._size(ours) else ours
        return newest if self._matches_local(newest, data) else self._next_version(name)

    def _append(self, local: str, offset: int, data: bytes) -> Appended:
        size = self._size(local)
        if size < offset:  # before the file is created
            raise PullRefused(f"{local} ends at {size} and the host continues at {offset}", where=local)
        with self._folder.opened(local) as fd:
            size = os.fstat(fd).st_size
            have = min(size - offset, len(data))
            if os.pread(fd, have, offset) != data[:have]:
                raise PullRefused(f"{local} differs from the host's file", where=local)
            self._folder.append(fd, local, offset + have, data[have:])
            return Appended(local, max(size, offset + len(data)), len(data) - have)

    def _matches_local(self, local: str, data: bytes) -> bool:
        with self._folder.reading(local) as fd:
            if fd is None:
                return True
            have = os.pread(fd, len(data), 0)
            return have == data[: len(have)]

    def _size(self, local: str) -> int:
        with self._folder.reading(local) as fd:
            return 0 if fd is None else os.fstat(fd).st_size

    def newest(self, name: str) -> str:
        """Return the newest local name of a file, whether it exists or not."""
        return self._versions(name)[-1]

    def _next_version(self, name: str) -> str:
        count = len(self._versions(name))
        if count >= MAX_VERSIONS:
            raise PullRefused(f"{name} was replaced on the host {count} times", where=name)
        return f"{name}{REPLACED}{count + 1}"

    def _versions(self, name: str) -> list[str]:
        """Return the existing local names of a file, oldest first, or its own name if none exists."""
        names = [name]
        while len(names) < MAX_VERSIONS:
            version = f"{name}{REPLACED}{len(names) + 1}"
            with self._folder.reading(version) as fd:
                if fd is None:
                    break
            names.append(version)
        return names


def _complete_size(fd: int) -> int:
    with os.fdopen(os.dup(fd), "rb") as file:
        return scan_file(file, check_from=max(0, os.fstat(fd).st_size - TAIL_CHECKED)).size_bytes
