"""Resume a transfer after a lost connection, and convert refusals of the host to errors."""

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
    """Call `send(lost)` until it returns, where `lost` counts the lost connections.

    Waits double. After TRIES lost connections, raises the last ConnectionLost or DeadlineExceeded. For a refusal of the
    host, raises the error that `error_of_fault` returns.
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
    """Return the error with the same exit code as the payload's refusal, or the refusal itself."""
    kinds = {ExitCode.DISK: DiskFull, ExitCode.BUSY: Busy, ExitCode.SYNC: SyncRefused}
    kind = kinds.get(fault.exit_code)
    return fault if kind is None else kind(fault.message, where=fault.where, hint=fault.hint)
