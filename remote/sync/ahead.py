"""Blocks of a stream made while the line takes the ones before, compressed as hard as that line makes worth while."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Iterator

from remote.protocol.blocks import AS_IT_IS, QUICK_LEVEL, SMALL_LEVEL, pack_blocks

DEPTH = 8
DRAINED_BYTES = 16 * 2**10
BUSY_BYTES = 2 * 2**20

InFlight = Callable[[], int | None]
"""Bytes written that have not arrived yet; None where nobody knows. See Host.in_flight."""


def pack_ahead(pieces: Iterable[tuple[bytes, bool]], codec: str, in_flight: InFlight) -> Iterator[bytes]:
    """The blocks of (data, dense) pieces, up to `DEPTH` of them made before they are asked for."""
    ahead = Ahead(in_flight)
    return ahead.of(pack_blocks(pieces, codec, ahead.level))


class Ahead:
    """A thread that makes chunks, and what its queue and the line say about the pace of both."""

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight
        self._made: queue.Queue[bytes | BaseException | None] = queue.Queue(DEPTH)
        self._gone = threading.Event()
        self._written = False
        self._idle = False

    def level(self) -> int:
        """How hard to compress the next block, so that neither the line nor we wait for the other.

        A line that has delivered all it was given (this machine, a fast network) carries bytes faster than they are
        compressed; it gets them as they are until they pile up in it. Where they pile up here, compressing harder
        costs nothing.
        """
        in_flight = self._in_flight()
        if in_flight is None or in_flight > BUSY_BYTES:
            self._idle = False
        elif self._written and in_flight <= DRAINED_BYTES:
            self._idle = True
        if self._idle:
            return AS_IT_IS
        return SMALL_LEVEL if self._made.full() else QUICK_LEVEL

    def of(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The same chunks, up to `DEPTH` of them made before they are asked for."""
        maker = threading.Thread(target=self._make, args=(chunks,), daemon=True)
        maker.start()
        try:
            while (one := self._made.get()) is not None:
                if isinstance(one, BaseException):
                    raise one
                yield one
                self._written = True
        finally:
            self._gone.set()
            maker.join()

    def _make(self, chunks: Iterator[bytes]) -> None:
        try:
            if all(self._offer(chunk) for chunk in chunks):
                self._offer(None)
        except BaseException as error:  # noqa: BLE001 - raised where the chunks are taken
            self._offer(error)

    def _offer(self, one: bytes | BaseException | None) -> bool:
        while not self._gone.is_set():
            with contextlib.suppress(queue.Full):
                self._made.put(one, timeout=0.1)
                return True
        return False
