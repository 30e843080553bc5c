"""A request that is being answered: its arguments, its byte stream, and the methods to answer it."""

from __future__ import annotations

import os
import select
import time
from typing import Any, BinaryIO, Callable, Dict, Iterator, Optional

from remote.protocol.dataclass import dataclass, field
from remote.protocol.frames import MAX_CHUNK, FrameKind, pack, pack_json, parse_json, read_frame

HEARTBEAT_S = 5.0


class Connection:
    """The two pipes to the laptop."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self.source = source
        self.sink = sink
        self.pushed_back = b""

    def read_exactly(self, size: int) -> bytes:
        """Read `size` bytes. Raises EOFError if the laptop has closed the connection."""
        data = self.source.read(size)
        if data is None or len(data) != size:
            raise EOFError("the laptop closed the connection")
        return data

    def next_request(self) -> Dict[str, Any]:
        """Return the request in `pushed_back` if there is one, otherwise read the next request."""
        if self.pushed_back:
            body, self.pushed_back = self.pushed_back, b""
            return parse_json(body)
        kind, body = read_frame(self.read_exactly)
        if kind is not FrameKind.JSON:
            raise EOFError(f"expected a request, got a {kind.name} frame")
        return parse_json(body)

    def write(self, data: bytes) -> None:
        self.sink.write(data)
        self.sink.flush()

    def closed(self) -> bool:
        """Return True if the laptop has closed its pipe. Call it only while the laptop sends nothing."""
        readable, _, _ = select.select([self.source], [], [], 0)
        return bool(readable)


@dataclass
class Call:
    """The argument of a handler. `workdir` is absolute."""

    op: str
    args: Dict[str, Any]
    workdir: str
    payload: str
    connection: Connection
    stream_ended: bool = False
    pushed_at: float = field(default_factory=time.monotonic)

    def path(self, path: str) -> str:
        """Return the absolute path: `~` is expanded, and a relative path starts at the workdir."""
        return os.path.join(self.workdir, os.path.expanduser(path))

    def chunks(self) -> Iterator[bytes]:
        """Yield the byte stream of the request, which must be read to its end.

        A second call continues where the first call stopped.
        """
        while not self.stream_ended:
            kind, body = read_frame(self.connection.read_exactly)
            if kind is FrameKind.END:
                self.stream_ended = True
                return
            if kind is not FrameKind.BYTES:
                raise EOFError(f"expected bytes, got a {kind.name} frame")
            yield body

    def send(self, data: bytes) -> None:
        """Send a part of the answer's byte stream."""
        for start in range(0, len(data), MAX_CHUNK):
            self.connection.write(pack(FrameKind.BYTES, data[start : start + MAX_CHUNK]))

    def push(self, event: Dict[str, Any]) -> None:
        """Send an event."""
        self.connection.write(pack_json({"event": event}))
        self.pushed_at = time.monotonic()

    def keep_alive(self, event: Optional[Dict[str, Any]] = None) -> None:
        """Send `event`, or an empty event, if no event was sent for `HEARTBEAT_S` seconds."""
        if self.idle_s() > HEARTBEAT_S:
            self.push(event or {})

    def idle_s(self) -> float:
        """Return the seconds since the last event."""
        return time.monotonic() - self.pushed_at


Handler = Callable[[Call], Dict[str, Any]]
