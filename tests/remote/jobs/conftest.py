"""A host in a folder of its own, a run in it, and no process left behind whatever the test does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.link.local import local_host
from tests.remote.jobs.jobs_bench import Bench, ours


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    workdir = tmp_path / "work dir"
    made = Bench(local_host(str(workdir)), workdir)
    yield made
    # The one it has now: a test may have closed the first one and opened another.
    made.host.close()
    while pids := ours(workdir):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)
