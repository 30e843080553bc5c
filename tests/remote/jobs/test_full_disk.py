"""A job that fills the disk still records its result, and its last complete checkpoint stays the newest."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.link.local import local_host
from remote.operations.jobs import start_job, stop_job
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobSpec, JobState
from tests.lab.mounts import why_no_mounts
from tests.lab.processes import alive
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench

FILL = "dd if=/dev/zero of=$HALFSTEP_RUN_DIR/filler bs=4096 2>/dev/null; echo full; exit 9"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Bench]:
    """A bench on a file system of 16 MiB."""
    if reason := why_no_mounts():
        pytest.skip(reason)
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=0700", "tmpfs", str(place)], check=True)
    host = local_host(str(place))
    try:
        yield Bench(host, place)
    finally:
        host.close()
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.root
def test_FI_55_on_a_full_disk_a_job_still_writes_its_result(small: Bench):
    small.start("--steps", 4, "--save-every", 2)
    until(lambda: small.survey().result, "the first job's end")
    fill = JobSpec(small.run, 2, "f" * 64, ("/bin/sh", "-c", FILL))
    start_job(small.host, StartRequest(PROJECT, fill, "tiny"))
    result = until(lambda: small.survey().job == 2 and small.survey().result, "the end")
    assert (result.exit, result.disk_full) == (9, True)
    assert "the file system of the run is full" in result.reason
    run = small.survey()
    assert os.statvfs(small.workdir).f_bavail * 4096 < 2**20, "the disk must really be full"
    assert [checkpoint.problem for checkpoint in run.checkpoints] == ["", ""]


def fill(bench: Bench) -> None:
    """Leave no block free, as a training does that writes without end."""
    with contextlib.suppress(OSError), open(Path(bench.layout.root) / "filler", "wb", buffering=0) as file:
        for size in (2**20, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass


@pytest.mark.root
@pytest.mark.parametrize("reserved", [True, False])
def test_a_stop_ends_a_training_on_a_full_disk(small: Bench, reserved: bool) -> None:
    small.start("--until", "/never")
    trainer = until(lambda: small.events("begin"), "the trainer")[0]["pid"]
    until(lambda: Path(small.job().reserve).exists(), "the reserve")
    if not reserved:
        os.truncate(small.job().reserve, 0)
    fill(small)
    answer = stop_job(small.host, PROJECT, small.run)
    assert not alive(trainer)
    if reserved:
        assert (answer.state, answer.result and answer.result.reason) == (JobState.STOPPED, "stopped on request")
