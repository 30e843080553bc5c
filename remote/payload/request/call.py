"""One request being answered: its arguments, the byte stream that came with it, and the ways to answer."""

from __future__ import annotations

import os
import select
from dataclasses import dataclass
from typing import Any, BinaryIO, Callable, Dict, Iterator

from remote.protocol.frames import MAX_CHUNK, FrameKind, pack, pack_json, parse_json, read_frame


class Line:
    """The two pipes to the laptop."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self.source = source
        self.sink = sink
        self.pushed_back = b""

    def read_exactly(self, size: int) -> bytes:
        """`size` bytes. Raises EOFError where the laptop is gone."""
        data = self.source.read(size)
        if data is None or len(data) != size:
            raise EOFError("the laptop closed the line")
        return data

    def next_request(self) -> Dict[str, Any]:
        """The request that was pushed back, else the next that comes."""
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

    def gone(self) -> bool:
        """The laptop closed its end (nothing else is ever sent while a follow is running)."""
        readable, _, _ = select.select([self.source], [], [], 0)
        return bool(readable)


@dataclass
class Call:
    """What a handler sees. `workdir` is absolute; `path()` resolves a path of the laptop's against it."""

    op: str
    args: Dict[str, Any]
    workdir: str
    payload: str
    line: Line
    stream_ended: bool = False

    def path(self, path: str) -> str:
        return os.path.join(self.workdir, os.path.expanduser(path))

    def chunks(self) -> Iterator[bytes]:
        """The byte stream that came with the request; must be read to its end. Asked again, it goes on where it was."""
        while not self.stream_ended:
            kind, body = read_frame(self.line.read_exactly)
            if kind is FrameKind.END:
                self.stream_ended = True
                return
            if kind is not FrameKind.BYTES:
                raise EOFError(f"expected bytes, got a {kind.name} frame")
            yield body

    def give(self, data: bytes) -> None:
        """Part of the byte stream that answers."""
        for start in range(0, len(data), MAX_CHUNK):
            self.line.write(pack(FrameKind.BYTES, data[start : start + MAX_CHUNK]))

    def push(self, event: Dict[str, Any]) -> None:
        """An event on the way; an empty one only says that the line is alive."""
        self.line.write(pack_json({"event": event}))


Handler = Callable[[Call], Dict[str, Any]]
