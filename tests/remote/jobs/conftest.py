"""A host in its own folder with one run, whose processes are ended after the test."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.link.local import local_host
from tests.lab.payload import install_payload
from tests.remote.jobs.jobs_bench import Bench, ours
from tests.remote.jobs.squeue_cluster import Cluster


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    workdir = install_payload(tmp_path / "work dir")
    made = Bench(local_host(str(workdir)), workdir)
    yield made
    # Its current agent, since a test may have closed the first one and opened another.
    made.host.close()
    while pids := ours(workdir):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    folder = tmp_path / "cluster"
    folder.mkdir()
    return Cluster(folder)
