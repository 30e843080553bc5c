"""Following a run shows each lost connection and the wait before the next try."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

import pytest

from pipeline.hosts.follow import announcing_retries
from remote.errors import CannotConnect, ConnectionLost
from remote.host import Json
from remote.pull.reconnect import follow_on
from tests.pipeline.listeners import NoListener


class Hears(NoListener):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        self.texts.append(text)


class GoesAway:
    """A host that pushes one message and is unreachable afterwards."""

    def __init__(self) -> None:
        self.asked = 0

    def follow(self, op: str, args: Json, *, timeout_s: float = 45.0, within_s: float = inf) -> Iterator[Json]:
        self.asked += 1
        if self.asked > 1:
            raise CannotConnect("titan timed out")
        yield {"data": ""}
        raise ConnectionLost("the line to titan went away")


def test_each_lost_connection_is_shown_with_its_wait() -> None:
    ears = Hears()
    retry = replace(announcing_retries(ears), tries=3, sleep=lambda seconds: None)
    with pytest.raises(CannotConnect):
        list(follow_on(GoesAway(), "follow.log", dict, retry))
    assert ears.texts == [
        "the line to titan went away; retrying in 0.5 s",
        "titan timed out; retrying in 1.0 s",
    ]
