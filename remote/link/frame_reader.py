"""Read the frames that an agent sends."""

from __future__ import annotations

import time
from collections.abc import Callable

from remote.errors import DeadlineExceeded, HostUnfit
from remote.link.streams import SLOWEST_BYTES_PER_S, ProcessStream
from remote.protocol.frames import MAX_CHUNK, FrameKind, read_frame
from remote.protocol.hidden import first_message_line

MAX_NOISE = 4 * 2**20
MAX_LINE = 4096


class FrameReader:
    """Reads frames from a stream, after skipping the output of the login shell.

    Raises DeadlineExceeded if a frame or line does not begin within `timeout_s`, or is not complete within `timeout_s`
    after its first byte. For a frame, the time that the received bytes take at `SLOWEST_BYTES_PER_S` is added. Neither
    single bytes nor the announced size of a frame therefore extend a deadline.
    """

    def __init__(self, stream: ProcessStream, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream = stream
        self.clock = clock
        self._buffer = bytearray()

    def read_line(self, timeout_s: float) -> bytes:
        """Return the bytes up to and including the next line feed. Raises HostUnfit if the line is too long."""
        self._begin(timeout_s)
        deadline = self.clock() + timeout_s
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > MAX_LINE:
                raise HostUnfit("not a halfstep agent: it sent a line without an end")
            self._receive(deadline)
        return self._take(end + 1)

    def read_frame(self, timeout_s: float) -> tuple[FrameKind, bytes]:
        """Return the next frame. Raises BadFrame."""
        self._begin(timeout_s)
        start = self.clock() + timeout_s

        def read_exactly(size: int) -> bytes:
            while len(self._buffer) < size:
                self._receive(start + len(self._buffer) / SLOWEST_BYTES_PER_S)
            return self._take(size)

        return read_frame(read_exactly)

    def skip_until(self, mark: bytes, timeout_s: float, deadline: float) -> None:
        """Discard everything up to and including `mark`, such as banners and the output of a .bashrc.

        `timeout_s` limits each pause. `deadline` is a time of the reader's clock and limits the whole call.
        """
        searched = 0
        while (at := self._buffer.find(mark, searched)) < 0:
            if len(self._buffer) > MAX_NOISE:
                raise HostUnfit(
                    f"the login shell printed more than {MAX_NOISE // 2**20} MiB before the agent started",
                    hint="print in start-up files only if stdout is a terminal: [ -t 1 ] && ...",
                )
            searched = max(0, len(self._buffer) - len(mark))
            self._receive(min(deadline, self.clock() + timeout_s))
        del self._buffer[: at + len(mark)]

    def starts_frame(self, timeout_s: float) -> bool:
        """Return True if the next data is a frame, False if it is a line of the bootstrap."""
        self._begin(timeout_s)
        return self._buffer[:1] == FrameKind.JSON.value

    def first_line(self) -> str:
        """Return the first line of unexpected output that arrived, escaped for a terminal."""
        return first_message_line(bytes(self._buffer[:MAX_LINE]))

    def _begin(self, timeout_s: float) -> None:
        """Wait for the first byte.

        The stream extends the timeout while data that was written to it is still being sent.
        """
        if not self._buffer:
            self._buffer.extend(self.stream.read_some(MAX_CHUNK, timeout_s))

    def _receive(self, deadline: float) -> None:
        remaining_s = deadline - self.clock()
        if remaining_s <= 0:
            raise DeadlineExceeded("the host sends its answer too slowly", hint="run the command again")
        self._buffer.extend(self.stream.read_some(MAX_CHUNK, remaining_s))

    def _take(self, size: int) -> bytes:
        with memoryview(self._buffer) as view, view[:size] as part:
            data = bytes(part)
        del self._buffer[:size]
        return data
