"""Following a run shows each lost connection and the wait before the next try."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.hosts import follow
from pipeline.hosts.follow import announcing_retries, follow_to_end
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, read_note, write_note
from remote.errors import CannotConnect, ConnectionLost
from remote.host import Json
from remote.protocol.jobs import JobNews, JobResult, JobState, Progress
from remote.protocol.values import encode
from remote.pull.reconnect import follow_on
from tests.pipeline.listeners import NoListener


class RecordingListener(NoListener):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        self.texts.append(text)


class UnreachableHost:
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
    ears = RecordingListener()
    retry = replace(announcing_retries(ears), tries=3, sleep=lambda seconds: None)
    with pytest.raises(CannotConnect):
        list(follow_on(UnreachableHost(), "follow.log", dict, retry))
    assert ears.texts == [
        "the line to titan went away; retrying in 0.5 s",
        "titan timed out; retrying in 1.0 s",
    ]


class InterruptedHost:
    """A host whose connection is lost after the first news of a job and works again afterwards."""

    def __init__(self) -> None:
        self.followed = 0

    def follow(self, op: str, args: Json, *, timeout_s: float = 45.0) -> Iterator[Json]:
        self.followed += 1
        if self.followed == 1:
            yield encode(JobNews(1, JobState.RUNNING, Progress(7, 60)))
            raise ConnectionLost("the line to titan went away")
        yield encode(JobNews(1, JobState.SUCCEEDED, Progress(60, 60), JobResult(0)))


class StepListener(RecordingListener):
    def __init__(self) -> None:
        super().__init__()
        self.steps: list[int] = []

    def training(self, news: JobNews) -> None:
        assert news.progress is not None
        self.steps.append(news.progress.step)


def test_a_job_is_followed_to_its_end_over_a_lost_connection() -> None:
    listener = StepListener()
    last = follow_to_end(InterruptedHost(), "project", "run", listener)
    assert last is not None and last.state is JobState.SUCCEEDED
    assert listener.steps == [7, 60]
    assert listener.texts == ["the line to titan went away; retrying in 0.5 s"]


def test_the_state_of_a_followed_job_is_recorded_at_intervals_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = Records(tmp_path)
    write_note(records, RunNote("run", "titan", "c", "project", created_unix=1.0))
    folder = records.run("run", "titan")
    times = iter((0.0, 0.0, 5.0, 15.0, 15.0))
    monkeypatch.setattr(follow, "time", SimpleNamespace(monotonic=lambda: next(times)))
    recorded: list[int | None] = []

    class StepsHost:
        def follow(self, op: str, args: Json, *, timeout_s: float = 45.0) -> Iterator[Json]:
            for step in (1, 2, 3):
                yield encode(JobNews(1, JobState.RUNNING, Progress(step, 9)))
                note = read_note(folder)
                recorded.append(note.step if note is not None else None)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow_to_end(StepsHost(), "project", "run", RecordingListener(), folder)
    assert recorded == [1, 1, 3]
    note = read_note(folder)
    assert note is not None and (note.step, note.state) == (3, JobState.RUNNING)
