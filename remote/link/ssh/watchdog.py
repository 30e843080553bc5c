"""A watchdog that closes a connection if the connection is silent for too long or a call exceeds its deadline."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from remote.link.ssh.monitored_socket import MonitoredSocket
from remote.link.ssh.sockets import Timeouts


class Watchdog:
    """Sends keepalives on a silent connection, and calls `on_timeout` with the reason if it stays silent.

    Keepalives are sent from a separate thread, because a send blocks on a dead connection.
    """

    def __init__(
        self,
        sock: MonitoredSocket,
        timeouts: Timeouts,
        send_keepalive: Callable[[], object],
        on_timeout: Callable[[str], None],
    ) -> None:
        self._socket = sock
        self._timeouts = timeouts
        self._send_keepalive = send_keepalive
        self._on_timeout = on_timeout
        self._stopped = threading.Event()
        self._deadlines: dict[int, float] = {}
        for target in (self._watch, self._keep_alive):
            threading.Thread(target=target, daemon=True).start()

    @contextlib.contextmanager
    def deadline(self, timeout_s: float) -> Iterator[None]:
        """Close the connection if the block takes longer than `timeout_s`."""
        thread = threading.get_ident()
        self._deadlines[thread] = time.monotonic() + timeout_s
        try:
            yield
        finally:
            self._deadlines.pop(thread, None)

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(min(0.5, self._timeouts.silence_s / 4)):
            now = time.monotonic()
            silence = now - self._socket.last_received
            if silence > self._timeouts.silence_s:
                self._on_timeout(f"nothing was received for {silence:.0f} s")
                return
            if any(deadline < now for deadline in list(self._deadlines.values())):
                self._on_timeout("a write timed out")
                return

    def _keep_alive(self) -> None:
        while not self._stopped.wait(self._timeouts.keepalive_s / 2):
            if time.monotonic() - self._socket.last_received > self._timeouts.keepalive_s:
                try:
                    self._send_keepalive()
                except (OSError, EOFError):
                    return
