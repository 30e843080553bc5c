"""The event files of a run as they lie here: each a byte prefix of the host's, ended by a whole record.

A file that was replaced on the host goes on under a new name (`NAME.replaced-2`), and the old one stays. Bytes may come
twice, from two pulls at once or after a cut: what is here already is compared and passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from remote.errors import PullRefused
from remote.protocol.records import scan_file, whole_prefix
from remote.protocol.segments import tail_digest
from remote.pull.folder import Folder
from remote.pull.names import REPLACED

TAIL_CHECKED = 2**20
MAX_VERSIONS = 20
MAX_FILE_BYTES = 512 * 2**20
MAX_TOTAL_BYTES = 5 * 2**30

Want = tuple[str, int, str]


@dataclass(frozen=True)
class Landed:
    """Where bytes went: the local name, its size now, and how many were new."""

    local: str
    size_bytes: int
    added_bytes: int


class EventMirror:
    """The mirror in one folder; `wants` says how far each file is, `append` makes it longer."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._locals: dict[str, str] = {}
        self._total_bytes = 0

    def wants(self, names: Iterable[str]) -> list[Want]:
        """For each name: where its next record belongs, and the digest of the bytes before; torn tails are cut off."""
        with self._folder.locked():
            return [self._want(name) for name in names]

    def local(self, name: str) -> str:
        """The local name that this file goes under now."""
        return self._locals.get(name, name)

    def append(self, name: str, offset: int, records: bytes, *, fresh: bool) -> Landed:
        """The records lie at `offset` of the file; `fresh`: the host's file is not the one we had.

        Raises PullRefused for bytes that are no whole records, leave a gap, contradict what is here, or are too many.
        """
        if whole_prefix(records).size_bytes != len(records):
            raise PullRefused(f"the host sent records of {name} whose sums are wrong", where=name)
        if offset + len(records) > MAX_FILE_BYTES or self._total_bytes + len(records) > MAX_TOTAL_BYTES:
            raise PullRefused(f"{name} is over the limit of {MAX_FILE_BYTES} bytes a file", where=name)
        with self._folder.locked():
            local = self._place(name, offset, records, fresh)
            self._locals[name] = local
            landed = self._append(local, offset, records)
        self._total_bytes += landed.added_bytes
        return landed

    def _want(self, name: str) -> Want:
        local = self.newest(name)
        self._locals[name] = local
        with self._folder.reading(local) as fd:
            if fd is None:
                return (name, 0, "")
        with self._folder.opened(local) as fd:
            size = _whole_size(fd)
            if size < os.fstat(fd).st_size:
                os.ftruncate(fd, size)
            return (name, size, tail_digest(fd, size))

    def _place(self, name: str, offset: int, records: bytes, fresh: bool) -> str:
        """The local name these records belong under."""
        ours, newest = self.local(name), self.newest(name)
        if offset > 0:
            return ours
        if fresh and newest == ours:
            return self._next_version(name) if self._size(ours) else ours
        return newest if self._agrees(newest, records) else self._next_version(name)

    def _append(self, local: str, offset: int, records: bytes) -> Landed:
        with self._folder.opened(local) as fd:
            size = os.fstat(fd).st_size
            if size < offset:
                raise PullRefused(f"{local} ends at {size} and the host goes on at {offset}", where=local)
            have = min(size - offset, len(records))
            if os.pread(fd, have, offset) != records[:have]:
                raise PullRefused(f"{local} is not what the host has", where=local)
            self._folder.append(fd, local, offset + have, records[have:])
            return Landed(local, max(size, offset + len(records)), len(records) - have)

    def _agrees(self, local: str, records: bytes) -> bool:
        with self._folder.reading(local) as fd:
            if fd is None:
                return True
            have = os.pread(fd, len(records), 0)
            return have == records[: len(have)]

    def _size(self, local: str) -> int:
        with self._folder.reading(local) as fd:
            return 0 if fd is None else os.fstat(fd).st_size

    def newest(self, name: str) -> str:
        """The newest local name for this file, there or not."""
        return self._versions(name)[-1]

    def _next_version(self, name: str) -> str:
        count = len(self._versions(name))
        if count >= MAX_VERSIONS:
            raise PullRefused(f"{name} was replaced on the host {count} times", where=name)
        return f"{name}{REPLACED}{count + 1}"

    def _versions(self, name: str) -> list[str]:
        """The local names that exist for this file, oldest first; at least the name itself."""
        found = [name]
        while len(found) < MAX_VERSIONS:
            version = f"{name}{REPLACED}{len(found) + 1}"
            with self._folder.reading(version) as fd:
                if fd is None:
                    break
            found.append(version)
        return found


def _whole_size(fd: int) -> int:
    with os.fdopen(os.dup(fd), "rb") as file:
        return scan_file(file, check_from=max(0, os.fstat(fd).st_size - TAIL_CHECKED)).size_bytes
