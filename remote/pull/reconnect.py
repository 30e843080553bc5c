"""Reconnect after a lost connection while following a job's output or events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from remote.errors import CannotConnect, ConnectionLost, DeadlineExceeded, HalfstepError
from remote.host import Host, Json
from remote.protocol.dataclass import dataclass

LOST = (ConnectionLost, DeadlineExceeded, CannotConnect)


@dataclass(frozen=True)
class RetryPolicy:
    """Waits double from `first_s` up to `longest_s`.

    After `tries` failures without a message in between, the error is raised. `on_lost` is called with each error and
    the length of the wait in seconds. A first connection that fails is not retried.
    """

    first_s: float = 0.5
    longest_s: float = 30.0
    tries: int = 30
    sleep: Callable[[float], None] = time.sleep
    on_lost: Callable[[HalfstepError, float], None] = lambda error, wait_s: None


def follow_on(host: Host, op: str, args: Callable[[], Json], policy: RetryPolicy) -> Iterator[Json]:
    """Yield the events of an operation until it ends.

    After a lost connection, call the operation again with new `args`. Raises the last error when the retries of
    `policy` are exhausted. Other errors are raised at once. If the host was never reached, CannotConnect is also raised
    at once.
    """
    failures, connected = 0, False
    while True:
        try:
            for event in host.follow(op, args()):
                failures, connected = 0, True
                yield event
            return
        except LOST as error:
            if not connected and isinstance(error, CannotConnect):
                raise
            failures, connected = failures + 1, True
            if failures >= policy.tries:
                raise
            wait_s = min(policy.longest_s, policy.first_s * 2 ** (failures - 1))
            policy.on_lost(error, wait_s)
            policy.sleep(wait_s)
