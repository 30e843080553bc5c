"""Partial downloads. They are resumed after a lost connection, and accepted only if the host's digest matches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from remote.errors import DiskFull, PullRefused
from remote.host import Host, Json
from remote.protocol.dataclass import dataclass
from remote.protocol.shell import shell_command
from remote.pull.digests import sha256_of
from remote.pull.folder import Folder
from remote.pull.safetensors import is_safetensors, judge_safetensors
from remote.pull.segments import Segment, receive

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Offered:
    """A file that the host offers."""

    name: str
    size_bytes: int
    sha256: str


class Parts:
    """The partial files of one offer, in the subfolder `prefix` of an open folder."""

    def __init__(self, folder: Folder, prefix: str, files: Iterable[Offered]) -> None:
        self._folder = folder
        self._prefix = prefix
        self._files = tuple(files)

    def fetch(self, host: Host, source: Json, progress: Progress) -> int:
        """Download and verify every file; return the bytes received. `source` contains the arguments of `weights.read`.

        Raises PullRefused if a digest is wrong twice.
        """
        self._judge_room()
        received = self._stream(host, source, self._files, progress)
        wrong = [file for file in self._files if self._digest(file) != file.sha256]
        for file in wrong:
            self._truncate(file)
        if wrong:
            received += self._stream(host, source, wrong, progress)
        for file in self._files:
            self._verify(file)
        self._folder.sync()
        return received

    def _stream(self, host: Host, source: Json, files: Iterable[Offered], progress: Progress) -> int:
        sizes = [(file, self._size(file)) for file in files if self._size(file) < file.size_bytes]
        at = {file.name: self._size(file) for file in self._files}
        total = sum(file.size_bytes for file in self._files)
        before = sum(at.values())

        def write(segment: Segment) -> None:
            file = sizes[segment.index][0]
            end = at[file.name] + len(segment.data)
            if end > file.size_bytes:
                raise PullRefused(f"the host sent more of {file.name} than the {file.size_bytes} bytes it offered")
            with self._folder.opened(self._part(file)) as fd:
                self._folder.append(fd, self._part(file), at[file.name], segment.data)
            at[file.name] = end
            progress(sum(at.values()), total)

        if sizes:
            wants = [(file.name, offset) for file, offset in sizes]
            receive(host, "weights.read", {**source, "wants": wants}, len(wants), write, limit=total)
        return sum(at.values()) - before

    def _verify(self, file: Offered) -> None:
        path = self._folder.path / self._part(file)
        digest = self._digest(file)
        if digest != file.sha256:
            self._truncate(file)
            raise PullRefused(
                f"{file.name} arrived twice with SHA-256 {digest[:16]}; on the host it is {file.sha256[:16]}",
                where=str(path),
            )
        reason = judge_safetensors(path) if is_safetensors(file.name) else ""
        if reason:
            raise PullRefused(f"{file.name} is not a complete safetensors file: {reason}", where=str(path))

    def _size(self, file: Offered) -> int:
        """Return the size of the partial file, or 0 without one.

        A partial file longer than the offered file is discarded.
        """
        with self._folder.opened(self._part(file)) as fd:
            size = os.fstat(fd).st_size
        if size > file.size_bytes:
            self._truncate(file)
            return 0
        return size

    def _truncate(self, file: Offered) -> None:
        with self._folder.opened(self._part(file)) as fd:
            os.ftruncate(fd, 0)

    def _digest(self, file: Offered) -> str:
        with self._folder.opened(self._part(file)) as fd:
            return sha256_of(fd)

    def _part(self, file: Offered) -> str:
        return f"{self._prefix}/{file.name}"

    def _judge_room(self) -> None:
        needed = sum(file.size_bytes - self._size(file) for file in self._files)
        room = os.statvfs(self._folder.path)
        free = room.f_bavail * room.f_frsize
        if needed > free:
            where = str(self._folder.path)
            message = f"the adapter needs {needed} bytes and {free} are free"
            raise DiskFull(message, where=where, hint=shell_command("df -h {}", where))
