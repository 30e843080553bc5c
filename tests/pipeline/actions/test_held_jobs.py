"""Jobs of several configs are submitted to the machine on which each was prepared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.actions import held_jobs, several
from pipeline.actions.held_jobs import HeldJobs
from pipeline.actions.several import copy_checkpoints, submit
from pipeline.config.hosts import LoadedHost
from pipeline.messages.outcome import JobOutcome, Outcome
from pipeline.records.layout import Records
from pipeline.runs.selection import load_selection
from remote.errors import ConnectionLost
from remote.protocol.exits import ExitCode
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobSpec, JobState
from remote.protocol.slurm import ArrayRequest
from tests.pipeline.config.config_files import write

TINY = "command: [python, train.py]\n"


class Cluster:
    """Records what reaches each machine. A machine in `down` is unreachable."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.prepared: list[StartRequest] = []
        self.arrays: list[tuple[str, ArrayRequest]] = []
        self.down: set[str] = set()
        monkeypatch.setattr(held_jobs, "start_job", lambda host, request: self.prepared.append(request))
        monkeypatch.setattr(held_jobs, "submit_held", lambda host, request: self.arrays.append((host, request)))
        monkeypatch.setattr(held_jobs, "connected", self.connected)
        monkeypatch.setattr(several, "note_job", lambda *_: None)

    @contextmanager
    def connected(self, host: LoadedHost, **_: Any) -> Iterator[str]:
        if host.config.host in self.down:
            raise ConnectionLost(f"{host.config.host} is gone", where=host.name)
        yield host.config.host


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def project(folder: Path, machine: str) -> Any:
    """A project whose host file calls the machine `gpu`."""
    write(folder, TINY, "tiny")
    (folder / "train.py").touch()
    write(folder, f"host: {machine}\nscheduler: slurm\n", "hosts/gpu")
    return load_selection("gpu", "tiny", (), folder)


def request(run: str, secret: str) -> StartRequest:
    return StartRequest("demo", JobSpec(run, 1, "0", ("true",)), "tiny", secrets={"TOKEN": secret}, backend="slurm")


def prepared(held: HeldJobs, selection: Any, run: str, secret: str) -> Outcome:
    held.start_on(selection.host)(None, request(run, secret))
    return Outcome("run", host="gpu", config="tiny", run=run)


def test_the_secrets_of_a_project_reach_only_the_machine_of_its_own_host_file(tmp_path: Path, cluster: Cluster) -> None:
    first, second = project(tmp_path / "a", "a.example"), project(tmp_path / "b", "b.example")
    held = HeldJobs()
    outcomes = [prepared(held, first, "tiny-1", "of a"), prepared(held, second, "tiny-2", "of b")]
    assert [one.secrets for one in cluster.prepared] == [{}, {}]
    assert submit(held, [first, second], outcomes, None) == outcomes
    sent = {host: [job.secrets for job in array.jobs] for host, array in cluster.arrays}
    assert sent == {"a.example": [{"TOKEN": "of a"}], "b.example": [{"TOKEN": "of b"}]}


def test_runs_on_one_machine_are_one_array(tmp_path: Path, cluster: Cluster) -> None:
    one = project(tmp_path, "a.example")
    held = HeldJobs()
    outcomes = [prepared(held, one, "tiny-1", "x"), prepared(held, one, "tiny-2", "y")]
    submit(held, [one, one], outcomes, None)
    [(host, array)] = cluster.arrays
    assert host == "a.example" and [job.run for job in array.jobs] == ["tiny-1", "tiny-2"]


def test_a_machine_that_is_unreachable_fails_only_its_own_runs(tmp_path: Path, cluster: Cluster) -> None:
    first, second = project(tmp_path / "a", "a.example"), project(tmp_path / "b", "b.example")
    held = HeldJobs()
    outcomes = [prepared(held, first, "tiny-1", "of a"), prepared(held, second, "tiny-2", "of b")]
    cluster.down.add("a.example")
    after = submit(held, [first, second], outcomes, None)
    assert [one.exit_code for one in after] == [ExitCode.CONNECT, ExitCode.OK]
    assert [host for host, _ in cluster.arrays] == ["b.example"]


def test_a_run_is_queued_after_its_submission_and_absent_if_that_failed(tmp_path: Path, cluster: Cluster) -> None:
    selection, held = project(tmp_path, "a.example"), HeldJobs()
    absent = replace(prepared(held, selection, "tiny-1", "x"), job=JobOutcome(JobState.ABSENT))
    [queued] = submit(held, [selection], [absent], None)
    assert queued.job is not None and queued.job.shown_state == "queued"
    cluster.down.add("a.example")
    [failed] = submit(held, [selection], [absent], None)
    assert failed.job is not None and failed.job.shown_state == "absent"


@pytest.mark.parametrize(("machine", "copied"), [("a.example", True), ("b.example", False)])
def test_checkpoints_are_copied_only_between_runs_on_the_same_machine(
    tmp_path: Path, machine: str, copied: bool
) -> None:
    first, second = project(tmp_path / "a", "a.example"), project(tmp_path / "b", machine)
    known, new = (Records(one.loaded.root).checkpoints("gpu", one.loaded.record) for one in (first, second))
    known.parent.mkdir(parents=True, exist_ok=True)
    new.parent.mkdir(parents=True, exist_ok=True)
    known.write_text("{}")
    copy_checkpoints(first, second)
    assert new.exists() is copied
