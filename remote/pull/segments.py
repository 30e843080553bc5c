"""Parse a stream of many files into segments.

A segment has the index of its file, its data, and a flag for a new start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from remote.errors import HalfstepError, PullRefused
from remote.host import Host, Json
from remote.protocol.dataclass import dataclass
from remote.protocol.records import MAX_RECORD, OVERHEAD
from remote.protocol.segments import FRESH, SEGMENT

MAX_SEGMENT = MAX_RECORD + OVERHEAD


@dataclass(frozen=True)
class Segment:
    """Data of the requested file at `index`, as complete records if it is an event file."""

    index: int
    fresh: bool
    data: bytes


class SegmentReader:
    """An incremental parser that buffers at most one segment."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[Segment]:
        """Yield each complete segment. Raises PullRefused if a segment is longer than the largest possible record."""
        self._buffer.extend(chunk)
        while len(self._buffer) >= SEGMENT.size:
            index, flags, size = SEGMENT.unpack_from(self._buffer)
            if size > MAX_SEGMENT:
                raise PullRefused(f"the host announced {size} bytes at once; {MAX_SEGMENT} is the limit")
            if len(self._buffer) < SEGMENT.size + size:
                return
            data = bytes(self._buffer[SEGMENT.size : SEGMENT.size + size])
            del self._buffer[: SEGMENT.size + size]
            yield Segment(index, bool(flags & FRESH), data)


def receive(host: Host, op: str, args: Json, count: int, on_segment: Callable[[Segment], None], *, limit: int) -> Json:
    """Pass each segment to `on_segment` and return the host's answer. A local error closes the connection.

    `limit` is the maximum number of bytes in all segments, without frames and headers, which may double the stream.
    `count` is the number of requested files. Raises PullRefused for a segment of another file, and the errors of
    `on_segment`.
    """
    reader = SegmentReader()

    def sink(chunk: bytes) -> None:
        try:
            for segment in reader.feed(chunk):
                if segment.index >= count:
                    raise PullRefused(f"the host sent a file that was not requested (number {segment.index})")
                on_segment(segment)
        except HalfstepError:
            host.close()
            raise

    return host.fetch(op, args, sink, limit=stream_limit(limit))


def stream_limit(content_bytes: int) -> int:
    """Return the maximum size of a stream with `content_bytes` of data. In small segments, headers double the size."""
    return content_bytes * 2 + 2**20
