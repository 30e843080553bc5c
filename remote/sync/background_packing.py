"""Compress the blocks of a stream in a thread, at a level that suits the speed of the connection."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Iterator

from remote.protocol.blocks import QUICK_LEVEL, SMALL_LEVEL, UNCOMPRESSED, pack_blocks

DEPTH = 8
DRAINED_BYTES = 16 * 2**10
BUSY_BYTES = 2 * 2**20

InFlight = Callable[[], int | None]
"""A function that returns the number of written bytes that have not arrived, or None if unknown. See Host.in_flight."""


def pack_in_background(pieces: Iterable[tuple[bytes, bool]], codec: str, in_flight: InFlight) -> Iterator[bytes]:
    """Yield the compressed blocks of (data, dense) pieces. A thread compresses up to `DEPTH` blocks in advance."""
    ahead = PackingThread(in_flight)
    return ahead.run(pack_blocks(pieces, codec, ahead.level))


class PackingThread:
    """A thread that compresses chunks. The compression level depends on its queue and on the connection."""

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight
        self._produced: queue.Queue[bytes | BaseException | None] = queue.Queue(DEPTH)
        self._consumer_stopped = threading.Event()
        self._written = False
        self._idle = False

    def level(self) -> int:
        """Return the compression level for the next block, so that compressor and connection are equally busy.

        If the connection has delivered everything that was written (on this machine or a fast network), it is faster
        than the compressor. Blocks are then sent uncompressed until unacknowledged data accumulates. If the queue of
        compressed blocks is full, a higher level does not slow down the transfer.
        """
        in_flight = self._in_flight()
        if in_flight is None or in_flight > BUSY_BYTES:
            self._idle = False
        elif self._written and in_flight <= DRAINED_BYTES:
            self._idle = True
        if self._idle:
            return UNCOMPRESSED
        return SMALL_LEVEL if self._produced.full() else QUICK_LEVEL

    def run(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield `chunks`. The thread computes up to `DEPTH` chunks in advance."""
        maker = threading.Thread(target=self._produce, args=(chunks,), daemon=True)
        maker.start()
        try:
            while (one := self._produced.get()) is not None:
                if isinstance(one, BaseException):
                    raise one
                yield one
                self._written = True
        finally:
            self._consumer_stopped.set()
            maker.join()

    def _produce(self, chunks: Iterator[bytes]) -> None:
        try:
            if all(self._put(chunk) for chunk in chunks):
                self._put(None)
        except BaseException as error:  # noqa: BLE001 - raised again in `run`
            self._put(error)

    def _put(self, one: bytes | BaseException | None) -> bool:
        while not self._consumer_stopped.is_set():
            with contextlib.suppress(queue.Full):
                self._produced.put(one, timeout=0.1)
                return True
        return False
