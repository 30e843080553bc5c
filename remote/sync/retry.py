"""A transfer whose line was cut is taken up again; what the host refuses is told as an error of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from remote.errors import Busy, ConnectionLost, DeadlineExceeded, DiskFull, RemoteFault, SyncRefused
from remote.host import Host
from remote.protocol.exits import ExitCode

TRIES = 5
FIRST_WAIT_S = 0.5

Answer = TypeVar("Answer")


def over_cuts(host: Host, send: Callable[[int], Answer], wait: Callable[[float], None]) -> Answer:
    """What `send` gives, which is told how often the line was cut before; five cuts are waited out, twice as long each.

    Raises ConnectionLost or DeadlineExceeded after that, and what `named_fault` makes of a refusal.
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
            raise named_fault(fault) from None


def named_fault(fault: RemoteFault) -> Exception:
    """The payload's refusal as the error of ours with the same exit code, where there is one."""
    kinds = {ExitCode.DISK: DiskFull, ExitCode.BUSY: Busy, ExitCode.SYNC: SyncRefused}
    kind = kinds.get(fault.exit_code)
    return fault if kind is None else kind(fault.message, where=fault.where, hint=fault.hint)
