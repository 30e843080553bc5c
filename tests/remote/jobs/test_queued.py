"""A job whose command submits jobs to Slurm itself ends with them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from remote.operations.jobs import start_job, stop_job
from remote.payload.processes.queued import CANCEL_FOR_S, QUEUE_POLL_S, Queued
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobState
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench


class Cluster:
    """Programs squeue and scancel, which list and cancel what is in a file."""

    def __init__(self, folder: Path) -> None:
        self.listed, self.calls = folder / "listed", folder / "calls"
        self.environment = {"PATH": f"{folder}:{os.environ['PATH']}"}
        self.answer(f'echo squeue >> "{self.calls}"; cat "{self.listed}"')
        self._write(folder / "scancel", f'echo "$@" >> "{self.calls}"; : > "{self.listed}"')

    def answer(self, script: str) -> None:
        """Let squeue run this script."""
        self._write(self.listed.parent / "squeue", script)

    def _write(self, path: Path, script: str) -> None:
        fresh = path.with_suffix(".new")
        fresh.write_text(f"#!/bin/sh\n{script}\n")
        fresh.chmod(0o755)
        fresh.rename(path)

    def list(self, *rows: str) -> None:
        self.listed.write_text("".join(f"{row}\n" for row in rows))


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    folder = tmp_path / "cluster"
    folder.mkdir()
    return Cluster(folder)


def start(bench: Bench, cluster: Cluster) -> None:
    """Start a job whose command has submitted a job to Slurm and ends at once."""
    command = f'echo "7 $PWD" > {cluster.listed}'
    spec = replace(bench.spec(), argv=("sh", "-c", command), environment=cluster.environment)
    start_job(bench.host, StartRequest(PROJECT, spec, "tiny"))
    until(lambda: "its jobs in Slurm are awaited: 7" in bench.output(), "the job in Slurm", seconds=60.0)


def test_a_job_runs_until_the_jobs_have_ended_that_its_command_has_submitted(bench: Bench, cluster: Cluster) -> None:
    start(bench, cluster)
    assert bench.survey().state is JobState.RUNNING
    cluster.list()
    until(lambda: bench.survey().state is JobState.SUCCEEDED, seconds=60.0)
    assert "7" not in cluster.calls.read_text()


def test_a_stop_cancels_the_jobs_that_the_command_has_submitted(bench: Bench, cluster: Cluster) -> None:
    start(bench, cluster)
    assert stop_job(bench.host, PROJECT, bench.spec().run).state is JobState.STOPPED
    assert "-- 7" in cluster.calls.read_text().splitlines()


def test_only_jobs_below_the_folder_count(cluster: Cluster, tmp_path: Path) -> None:
    inside, beside = tmp_path / "run", tmp_path / "run2"
    inside.mkdir()
    (tmp_path / "link").symlink_to(inside)
    cluster.list(f"1 {inside}", f"2 {beside}", f"3 {tmp_path / 'link'}/code", f"1 {inside}", "4", "5 /")
    assert Queued(str(inside), cluster.environment).read() == ("1", "3")


@pytest.mark.parametrize("answer", ["exit 1", "echo 1 /elsewhere", "echo garbage", "true"])
def test_nothing_is_found_or_cancelled_without_an_answer(cluster: Cluster, tmp_path: Path, answer: str) -> None:
    cluster.answer(answer)
    queued = Queued(str(tmp_path), cluster.environment)
    assert queued.read() == ()
    assert not queued.cancel()
    assert not cluster.calls.exists()


def test_without_squeue_nothing_is_found(tmp_path: Path) -> None:
    queued = Queued("/", {"PATH": str(tmp_path)})
    assert (queued.read(), queued.cancel()) == ((), False)


def test_the_queue_is_asked_at_most_once_in_a_while(cluster: Cluster, tmp_path: Path) -> None:
    now = 0.0
    queued = Queued(str(tmp_path), cluster.environment, clock=lambda: now)
    cluster.list(f"1 {tmp_path}")
    assert queued.read() == ("1",)
    cluster.list()
    now = QUEUE_POLL_S / 2
    assert queued.read() == ("1",)
    now = QUEUE_POLL_S
    assert queued.read() == ()
    assert cluster.calls.read_text() == "squeue\nsqueue\n"


def test_the_jobs_that_were_listed_last_count_while_squeue_fails(cluster: Cluster, tmp_path: Path) -> None:
    now = 0.0
    queued = Queued(str(tmp_path), cluster.environment, clock=lambda: now)
    cluster.list(f"1 {tmp_path}")
    assert queued.read() == ("1",)
    cluster.answer("exit 1")
    now = QUEUE_POLL_S
    assert queued.read() == ("1",)
    assert queued.cancel()
    cluster.answer("true")
    now = 2 * QUEUE_POLL_S
    assert (queued.read(), queued.cancel()) == ((), False)


def test_a_job_runs_on_while_slurm_does_not_answer(bench: Bench, cluster: Cluster) -> None:
    start(bench, cluster)
    cluster.answer(f'echo failed >> "{cluster.calls}"; exit 1')
    until(lambda: cluster.calls.read_text().count("failed") >= 2, "squeue", seconds=60.0)
    assert bench.survey().state is JobState.RUNNING
    cluster.answer("true")
    until(lambda: bench.survey().state is JobState.SUCCEEDED, seconds=60.0)


def test_a_job_that_cannot_be_cancelled_is_awaited_for_a_limited_time(cluster: Cluster, tmp_path: Path) -> None:
    now = 0.0
    cluster.answer(f"echo 9 {tmp_path}")
    queued = Queued(str(tmp_path), cluster.environment, clock=lambda: now)
    assert queued.cancel()
    assert cluster.calls.read_text().splitlines() == ["-- 9"]
    assert queued.cancel()  # within a second, nobody is asked
    assert cluster.calls.read_text().splitlines() == ["-- 9"]
    now = CANCEL_FOR_S - 1
    assert queued.cancel()
    now = CANCEL_FOR_S
    assert not queued.cancel()
