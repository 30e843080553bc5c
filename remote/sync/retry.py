"""Resume a transfer after a lost connection, and convert faults that the host reports to errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from remote.errors import Busy, ConnectionLost, DeadlineExceeded, DiskFull, RemoteFault, SyncRefused
from remote.host import Host
from remote.protocol.exits import ExitCode

TRIES = 5
FIRST_WAIT_S = 0.5

Answer = TypeVar("Answer")


def retry_lost_connection(host: Host, send: Callable[[int], Answer], wait: Callable[[float], None]) -> Answer:
    """Call `send(lost)` until it returns; `lost` is the number of lost connections.

    Each wait is twice as long as the previous wait. After TRIES lost connections, raises the last ConnectionLost or
    DeadlineExceeded. For a RemoteFault, raises the error that `error_of_fault` returns.
    """
    lost = 0
    while True:
        try:
            return send(lost)
        except (ConnectionLost, DeadlineExceeded):
            lost += 1
            if lost > TRIES:
                raise
            host.close()
            wait(FIRST_WAIT_S * 2 ** (lost - 1))
        except RemoteFault as fault:
            raise error_of_fault(fault) from None


def error_of_fault(fault: RemoteFault) -> Exception:
    """Return an error with the exit code of the payload's fault, or the fault itself if no error has this exit code."""
    kinds = {ExitCode.DISK: DiskFull, ExitCode.BUSY: Busy, ExitCode.SYNC: SyncRefused}
    kind = kinds.get(fault.exit_code)
    return fault if kind is None else kind(fault.message, where=fault.where, hint=fault.hint)
