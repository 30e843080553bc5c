"""A cut connection is retried after twice the wait each time; a refusal is not retried."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from remote.errors import Busy, ConnectionLost, DeadlineExceeded, DiskFull, RemoteFault, SyncRefused
from remote.host import Host
from remote.protocol.exits import ExitCode
from remote.sync.retry import retry_lost_connection


@dataclass
class Line:
    """A host that only counts transfers. Each transfer ends with the next element of `ends`."""

    ends: list[Any]
    closed: int = 0
    waited: list[float] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)

    def close(self) -> None:
        self.closed += 1

    def send(self, lost: int) -> str:
        self.attempts.append(lost)
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return str(end)

    def go(self) -> str:
        return retry_lost_connection(cast(Host, self), self.send, self.waited.append)


@pytest.mark.parametrize("cuts", range(6))
def test_after_each_of_five_cuts_a_new_connection_resumes(cuts: int) -> None:
    kinds = [ConnectionLost("cut"), DeadlineExceeded("silent")]
    line = Line([*(kinds[at % 2] for at in range(cuts)), "whole"])
    assert line.go() == "whole"
    assert (line.closed, line.attempts) == (cuts, list(range(cuts + 1)))
    assert line.waited == [0.5, 1.0, 2.0, 4.0, 8.0][:cuts]


def test_the_sixth_cut_is_an_error() -> None:
    line = Line([*(ConnectionLost("cut") for _ in range(5)), ConnectionLost("the last"), "whole"])
    with pytest.raises(ConnectionLost, match="the last"):
        line.go()
    assert (line.closed, len(line.waited), line.ends) == (5, 5, ["whole"])


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ExitCode.DISK, DiskFull),
        (ExitCode.BUSY, Busy),
        (ExitCode.SYNC, SyncRefused),
        (ExitCode.ENVIRONMENT, RemoteFault),
    ],
)
def test_a_refusal_is_raised_at_once_with_the_hosts_message(code: ExitCode, kind: type[Exception]) -> None:
    line = Line([RemoteFault("no", kind="x", where="/there", hint="ls", exit_code=code), "whole"])
    with pytest.raises(kind) as refused:
        line.go()
    error = refused.value
    assert type(error) is kind and error.__cause__ is None
    assert (str(error.message), error.where, error.hint, error.exit_code) == ("no", "/there", "ls", code)
    assert (line.closed, line.waited) == (0, [])
