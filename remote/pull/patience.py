"""How long a lost line is waited for while something is followed, and how often it is tried."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from remote.errors import CannotConnect, ConnectionLost, DeadlineExceeded, HalfstepError
from remote.host import Host, Json

LOST = (ConnectionLost, DeadlineExceeded, CannotConnect)


@dataclass(frozen=True)
class RetryPolicy:
    """Waits double from `first_s` to `longest_s`; `tries` failures in a row, without one message between, are given up.

    `on_lost` is told of each failure and of the wait that follows it. Only a line that once stood is waited for.
    """

    first_s: float = 0.5
    longest_s: float = 30.0
    tries: int = 30
    sleep: Callable[[float], None] = time.sleep
    on_lost: Callable[[HalfstepError, float], None] = lambda error, wait_s: None


def follow_on(host: Host, op: str, args: Callable[[], Json], patience: RetryPolicy) -> Iterator[Json]:
    """What the operation pushes until it ends by itself; after a lost line it is asked again with new `args`.

    Raises the last error when patience is at its end; at once whatever is not a lost line, or a host never reached.
    """
    failures, stood = 0, False
    while True:
        try:
            for event in host.follow(op, args()):
                failures, stood = 0, True
                yield event
            return
        except LOST as error:
            if not stood and isinstance(error, CannotConnect):
                raise
            failures, stood = failures + 1, True
            if failures >= patience.tries:
                raise
            wait_s = min(patience.longest_s, patience.first_s * 2 ** (failures - 1))
            patience.on_lost(error, wait_s)
            patience.sleep(wait_s)
