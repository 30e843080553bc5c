"""The laptop's side of the frame protocol."""

from __future__ import annotations

from remote.errors import HostUnfit
from remote.link.streams import ProcessStream
from remote.protocol.frames import MAX_CHUNK, FrameKind, read_frame
from remote.protocol.text import first_line

MAX_NOISE = 4 * 2**20
MAX_LINE = 4096


class FrameReader:
    """Reads frames from a stream, after the output of a login shell is skipped."""

    def __init__(self, stream: ProcessStream) -> None:
        self.stream = stream
        self._buffer = bytearray()

    def read_exactly(self, size: int, timeout_s: float) -> bytes:
        while len(self._buffer) < size:
            self._buffer.extend(self.stream.read_some(MAX_CHUNK, timeout_s))
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def read_line(self, timeout_s: float) -> bytes:
        """Return the bytes up to and including the next line feed. Raises HostUnfit if the line is too long."""
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > MAX_LINE:
                raise HostUnfit("not a halfstep agent: it sent a line without an end")
            self._buffer.extend(self.stream.read_some(MAX_LINE, timeout_s))
        return self.read_exactly(end + 1, timeout_s)

    def read_frame(self, timeout_s: float) -> tuple[FrameKind, bytes]:
        """Return the next frame. Raises BadFrame."""
        return read_frame(lambda size: self.read_exactly(size, timeout_s))

    def skip_until(self, mark: bytes, timeout_s: float) -> None:
        """Discard everything up to and including `mark`: banners, the output of a .bashrc."""
        searched = 0
        while (at := self._buffer.find(mark, searched)) < 0:
            if len(self._buffer) > MAX_NOISE:
                raise HostUnfit(
                    f"the login shell printed more than {MAX_NOISE // 2**20} MiB before the agent started",
                    hint="print in start-up files only if stdout is a terminal: [ -t 1 ] && ...",
                )
            searched = max(0, len(self._buffer) - len(mark))
            self._buffer.extend(self.stream.read_some(MAX_CHUNK, timeout_s))
        del self._buffer[: at + len(mark)]

    def starts_frame(self, timeout_s: float) -> bool:
        """Return True if a frame is next, False if it is a line of the bootstrap."""
        if not self._buffer:
            self._buffer.extend(self.stream.read_some(MAX_CHUNK, timeout_s))
        return self._buffer[:1] == FrameKind.JSON.value

    def first_line(self) -> str:
        """Return the first line of what was received instead of an agent, safe for a terminal."""
        return first_line(bytes(self._buffer[:MAX_LINE]))
