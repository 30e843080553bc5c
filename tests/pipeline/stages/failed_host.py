"""A host on which each job fails after printing an output."""

from __future__ import annotations

from remote.protocol.jobs import (
    JobNews,
    JobResult,
    JobState,
    StartAnswer,
)
from remote.protocol.segments import SEGMENT
from remote.protocol.values import encode
from tests.lab.fake_host import FakeHost


def failing(output: bytes) -> FakeHost:
    """Return a host on which every job prints `output` and ends with exit 1."""
    return FakeHost(
        operations={
            "job.start": lambda args: encode(StartAnswer(args["spec"]["run"], 1, JobState.RUNNING, True)),
            "log.read": lambda args: {},
        },
        streams={
            "job.wait": [encode(JobNews(1, JobState.FAILED, result=JobResult(1)))],
            "log.read": [SEGMENT.pack(0, 0, len(output)) + output],
        },
    )
