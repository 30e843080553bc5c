"""The laptop's end of the frames."""

from __future__ import annotations

from remote.errors import HostUnfit
from remote.link.wire import Wire
from remote.protocol.frames import MAX_CHUNK, FrameKind, read_frame
from remote.protocol.text import first_line

MAX_NOISE = 4 * 2**20
MAX_LINE = 4096


class Line:
    """A wire read frame by frame, once whatever a login shell printed before is skipped."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._buffer = bytearray()

    def read_exactly(self, size: int, timeout_s: float) -> bytes:
        while len(self._buffer) < size:
            self._buffer.extend(self.wire.read_some(MAX_CHUNK, timeout_s))
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def read_line(self, timeout_s: float) -> bytes:
        """Up to and with the next line feed. Raises HostUnfit where none comes."""
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > MAX_LINE:
                raise HostUnfit("what answers is not our agent: it sent a line without an end")
            self._buffer.extend(self.wire.read_some(MAX_LINE, timeout_s))
        return self.read_exactly(end + 1, timeout_s)

    def read_frame(self, timeout_s: float) -> tuple[FrameKind, bytes]:
        """The next frame. Raises BadFrame."""
        return read_frame(lambda size: self.read_exactly(size, timeout_s))

    def skip_noise(self, mark: bytes, timeout_s: float) -> None:
        """Everything up to and with `mark` is forgotten: banners, what a .bashrc prints."""
        searched = 0
        while (at := self._buffer.find(mark, searched)) < 0:
            if len(self._buffer) > MAX_NOISE:
                raise HostUnfit(
                    f"the login shell printed more than {MAX_NOISE // 2**20} MiB before our agent could answer",
                    hint="let its start-up files print only where a terminal is: [ -t 1 ] && ...",
                )
            searched = max(0, len(self._buffer) - len(mark))
            self._buffer.extend(self.wire.read_some(MAX_CHUNK, timeout_s))
        del self._buffer[: at + len(mark)]

    def starts_frame(self, timeout_s: float) -> bool:
        """Whether a frame comes next, or a word of the bootstrap's."""
        if not self._buffer:
            self._buffer.extend(self.wire.read_some(MAX_CHUNK, timeout_s))
        return self._buffer[:1] == FrameKind.JSON.value

    def noise(self) -> str:
        """The first line of what came instead of an agent, fit for a terminal."""
        return first_line(bytes(self._buffer[:MAX_LINE]))
