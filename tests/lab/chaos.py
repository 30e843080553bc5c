"""A TCP proxy that delays, throttles, cuts, silences or corrupts a connection, as planned by its injector."""

from __future__ import annotations

import collections
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.lab.injector import Fault, Injector

CHUNK = 16384


@dataclass
class ChaosProxy:
    """Forwards a free port of 127.0.0.1 to `target`. Delay and rate apply to each direction of each connection.

    A connection is reset if one direction is silent for `idle_s`; 0 means never.
    """

    target: tuple[str, int]
    delay_s: float = 0.0
    bytes_per_s: float = 0.0
    idle_s: float = 0.0
    injector: Injector = field(default_factory=Injector)
    connections: int = 0

    def start(self) -> ChaosProxy:
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._server.getsockname()[1]
        self._lines: list[_Connection] = []
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                self.connections += 1
                refusal = self.injector.strikes("connect", self.connections)
                if refusal is not None:
                    client.close()
                    continue
                self._lines.append(_Connection(self, client))

    def black_hole(self) -> None:
        """Discard all data of the open connections from now on."""
        for line in self._lines:
            line.swallow = True

    def cut(self) -> None:
        """Reset every open connection."""
        for line in self._lines:
            line.reset()

    def close(self) -> None:
        self._server.close()
        self.cut()


class _Connection:
    """The two directions of one client's connection."""

    def __init__(self, proxy: ChaosProxy, client: socket.socket) -> None:
        self._proxy = proxy
        self.swallow = False
        self._client = client
        self._server = socket.create_connection(proxy.target, timeout=20)
        for sock in (client, self._server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(proxy.idle_s or None)
        for direction, source, sink in (("up", client, self._server), ("down", self._server, client)):
            late: collections.deque[tuple[float, bytes]] = collections.deque()
            more = threading.Semaphore(0)
            threading.Thread(target=self._read, args=(direction, source, late, more), daemon=True).start()
            threading.Thread(target=self._write, args=(sink, late, more), daemon=True).start()

    def _read(
        self,
        direction: str,
        source: socket.socket,
        late: collections.deque[tuple[float, bytes]],
        more: threading.Semaphore,
    ) -> None:
        carried = 0
        injector = self._proxy.injector
        with self._resets_both():
            while True:
                limit = injector.next_limit(direction, carried)
                data = source.recv(CHUNK if limit is None else max(1, min(CHUNK, limit)))
                plan = injector.strikes(direction, carried) if data else None
                if plan is not None:
                    data = self._suffer(plan.fault, plan.seconds, data)
                carried += len(data)
                if self.swallow and data:
                    continue
                late.append((time.monotonic() + self._proxy.delay_s, data))
                more.release()
                if not data:
                    return

    def _suffer(self, fault: Fault, seconds: float, data: bytes) -> bytes:
        if fault is Fault.RESET:
            self.reset()
            return b""
        if fault is Fault.CLOSE:
            self._client.shutdown(socket.SHUT_RDWR)
            self._server.shutdown(socket.SHUT_RDWR)
            return b""
        if fault is Fault.BLACK_HOLE:
            self.swallow = True
        elif fault is Fault.STALL:
            time.sleep(seconds)
        elif fault is Fault.FLIP:
            return bytes([data[0] ^ 0x10]) + data[1:]
        return data

    def _write(
        self, sink: socket.socket, late: collections.deque[tuple[float, bytes]], more: threading.Semaphore
    ) -> None:
        with self._resets_both():
            while True:
                more.acquire()
                due, data = late.popleft()
                if (wait := due - time.monotonic()) > 0:
                    time.sleep(wait)
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)
                if self._proxy.bytes_per_s:
                    time.sleep(len(data) / self._proxy.bytes_per_s)

    @contextlib.contextmanager
    def _resets_both(self) -> Iterator[None]:
        """Reset both connections if one fails, so that a killed client leaves no open connection to the server."""
        try:
            yield
        except OSError:
            self.reset()

    def reset(self) -> None:
        """Send an RST to both ends, by closing the sockets with a linger time of 0."""
        for sock in (self._client, self._server):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                # A thread that waits in recv keeps the socket alive, so it is woken to make the close effective.
                sock.shutdown(socket.SHUT_RD)
                sock.close()
