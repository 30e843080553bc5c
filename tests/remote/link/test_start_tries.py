"""The number of tries of one call includes the tries of starting an agent for it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from remote.errors import ConnectionLost, HalfstepError, HungUp
from remote.link.agent import AgentHost
from remote.link.agent_start import Retries
from remote.link.streams import LocalStarter, ProcessStream
from remote.protocol.frames import hello, pack_json

GREETING = pack_json({"workdir": "/w", "payload": "/p", "python": [3, 11, 0], "pid": 1})


class Ended:
    """A process that greets if it has a nonce, and ends at once."""

    in_flight = 0

    def __init__(self, nonce: str) -> None:
        self._output = hello(nonce) + GREETING if nonce else b""

    def read_some(self, limit: int, timeout_s: float) -> bytes:
        if not self._output:
            raise ConnectionLost("the host closed the connection")
        data, self._output = self._output[:limit], self._output[limit:]
        return data

    def write(self, data: bytes, timeout_s: float) -> None:
        """Discard the data."""

    def stderr_text(self) -> str:
        return ""

    def close(self) -> None:
        """Do nothing."""


class Ending(LocalStarter):
    """Starts processes that end at once; every `greets`-th one greets first."""

    def __init__(self, greets: int, error: type[HalfstepError] | None = None) -> None:
        self.starts, self._greets, self._error = 0, greets, error

    def start(self, argv: Sequence[str]) -> ProcessStream:
        self.starts += 1
        if self._error is not None:
            raise self._error("the host closed the connection")
        return Ended(argv[5] if self.starts % self._greets == 0 else "")


@pytest.mark.parametrize("greets", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("op", ["survey", "fix.hub.look"], ids=["first request", "sent request"])
def test_a_host_that_ends_every_agent_is_tried_five_times_for_one_call(greets: int, op: str) -> None:
    starter = Ending(greets)
    with pytest.raises(ConnectionLost):
        AgentHost("titan", starter, retries=Retries(tries=5, first_wait_s=0.0)).ask(op, {})
    assert starter.starts == 5


@pytest.mark.parametrize("error", [ConnectionLost, HungUp])
def test_a_server_that_hangs_up_is_tried_three_times_for_one_call(error: type[HalfstepError]) -> None:
    starter = Ending(1, error)
    with pytest.raises(error):
        AgentHost("titan", starter, retries=Retries(tries=3, first_wait_s=0.0)).ask("survey")
    assert starter.starts == 3
