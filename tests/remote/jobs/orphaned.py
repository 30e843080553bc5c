"""Create a training job whose supervisor was killed."""

from __future__ import annotations

import os
import signal

from tests.lab.processes import alive
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import Bench


def kill_exit_recorder(bench: Bench) -> None:
    """Also kill the process that records the trainer's exit status."""
    recorder = bench.survey().started.child_pid
    os.kill(recorder, signal.SIGKILL)
    until(lambda: not alive(recorder), "the exit recorder's end")


def orphan(bench: Bench, *words: object, **settings: object) -> int:
    """Start a trainer and kill its supervisor, and return the trainer's pid."""
    bench.start(*words, **settings)
    pid = until(lambda: bench.events("begin"), "the trainer")[0]["pid"]
    supervisor = bench.survey().started.pid
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not alive(supervisor), "the supervisor's end")
    return pid
