"""The jobs in Slurm that a command has submitted: which ones count, and how they are cancelled."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pipeline.verbs.stop import judge_slurm_left
from remote.payload.jobs.slurm import queue_state
from remote.payload.processes.command_jobs import CANCEL_FOR_S, CommandJobs
from remote.protocol.findings import Severity
from tests.lab.slurm import slurm_cluster
from tests.lab.wait import until
from tests.remote.jobs.squeue_cluster import Cluster, listed_row


class Clock:
    """A clock that a pause advances by one second."""

    def __init__(self) -> None:
        self.now = 0.0

    def pause(self) -> None:
        self.now += 1.0

    def read(self) -> float:
        return self.now


def cancel(jobs: CommandJobs) -> tuple[int, ...] | None:
    clock = Clock()
    return jobs.cancel(clock.pause, clock.read)


def test_a_stop_warns_of_unseen_jobs_if_slurm_does_not_answer() -> None:
    (finding,) = judge_slurm_left(None, "titan")
    assert finding.severity is Severity.WARNING
    assert judge_slurm_left((), "titan") == ()


def test_only_living_batch_jobs_below_the_folder_count(cluster: Cluster, tmp_path: Path) -> None:
    inside, beside = tmp_path / "run", tmp_path / "run2"
    inside.mkdir()
    (tmp_path / "link").symlink_to(inside)
    cluster.list(
        f"1 1 RUNNING {inside}",
        f"2 1 RUNNING {beside}",
        f"3 1 PENDING {tmp_path}/link/my code",
        f"1 1 PENDING {inside}",
        f"4 0 RUNNING {inside}",
        f"5 1 COMPLETED {inside}",
        f"6 1 COMPLETING {inside}",
        "7 1 RUNNING /",
        "8 1 RUNNING ",
        f"x 1 RUNNING {inside}",
    )
    assert CommandJobs(str(inside), cluster.environment).submitted() == (1, 3)
    assert CommandJobs(str(inside), cluster.environment).submitted(ending=True) == (1, 3, 6)


def test_the_slurm_job_in_which_the_command_itself_runs_does_not_count(cluster: Cluster, tmp_path: Path) -> None:
    cluster.list(f"1 1 RUNNING {tmp_path}", f"2 1 RUNNING {tmp_path}")
    assert CommandJobs(str(tmp_path), cluster.environment, own=("1",)).submitted() == (2,)
    assert CommandJobs(str(tmp_path), cluster.environment, own=("job2",)).submitted() == (1,)


def test_names_and_folders_may_have_characters_of_several_bytes(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode("Müller".encode() + b"\xff")
    folder.mkdir()
    cluster.listed.write_bytes(
        listed_row(f"1 1 RUNNING {folder}", name="Übung äöü") + listed_row(f"2 1 RUNNING {folder}")
    )
    assert CommandJobs(str(folder), cluster.environment).submitted() == (1, 2)


def test_hidden_partitions_and_the_filters_of_the_environment_are_no_limit(cluster: Cluster, tmp_path: Path) -> None:
    cluster.list(f"1 1 RUNNING {tmp_path}")
    cluster.answer(f'case "$SQUEUE_PARTITION $*" in " --all "*) cat "{cluster.listed}";; esac')
    environment = {**cluster.environment, "SQUEUE_PARTITION": "other"}
    assert CommandJobs(str(tmp_path), environment).submitted() == (1,)


@pytest.mark.parametrize("answer", ["exit 1", "echo 1 1 RUNNING /elsewhere", "echo garbage", "true"])
def test_nothing_is_cancelled_without_an_answer(cluster: Cluster, tmp_path: Path, answer: str) -> None:
    cluster.answer(answer)
    jobs = CommandJobs(str(tmp_path), cluster.environment)
    assert jobs.can_list() is (answer != "exit 1")
    assert jobs.submitted() == cancel(jobs) == (() if jobs.can_list() else None)
    assert not cluster.calls.exists()


def test_without_squeue_nothing_is_found(tmp_path: Path) -> None:
    jobs = CommandJobs("/", {"PATH": str(tmp_path)})
    assert (jobs.submitted(), cancel(jobs), jobs.can_list()) == ((), (), False)


def test_the_jobs_of_srun_are_cancelled_too(cluster: Cluster, tmp_path: Path) -> None:
    cluster.list(f"1 1 RUNNING {tmp_path}", f"2 0 RUNNING {tmp_path}", "3 1 RUNNING /elsewhere")
    assert cancel(CommandJobs(str(tmp_path), cluster.environment)) == ()
    assert "-- 1 2" in cluster.calls.read_text().splitlines()


def test_a_cancelled_job_is_awaited_while_it_saves(cluster: Cluster, tmp_path: Path) -> None:
    cluster.list(f"1 1 COMPLETING {tmp_path}")
    assert cancel(CommandJobs(str(tmp_path), cluster.environment)) == (1,)
    assert "1" not in cluster.calls.read_text()


def test_a_job_that_cannot_be_cancelled_is_awaited_for_a_limited_time(cluster: Cluster, tmp_path: Path) -> None:
    row = listed_row(f"9 1 RUNNING {tmp_path}").decode()
    cluster.answer(f"echo '{row}'")
    assert cancel(CommandJobs(str(tmp_path), cluster.environment)) == (9,)
    assert cluster.calls.read_text().splitlines() == ["-- 9"] * int(CANCEL_FOR_S)


@pytest.mark.root
def test_slurm_lists_batch_jobs_also_in_hidden_partitions_and_cancels_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with slurm_cluster(tmp_path / "slurm", monkeypatch) as cluster:
        cluster.ask("scontrol", "update", "PartitionName=debug", "Hidden=YES")
        folder = tmp_path / "the run"
        folder.mkdir()
        options = (f"--chdir={folder}", "--parsable")
        ended = cluster.ask("sbatch", *options, "--wrap=exit 3").strip()
        until(lambda: not queue_state(ended).startswith(("RUNNING", "PENDING")), "the end", seconds=60.0)
        living = cluster.ask("sbatch", *options, "--wrap=exec sleep 600").strip()
        array = cluster.ask("sbatch", *options, "--array=1-3", "--wrap=exec sleep 600").strip()
        environment = {**os.environ, "SQUEUE_STATES": "PENDING", "SQUEUE_PARTITION": "other"}
        jobs = CommandJobs(str(folder), environment)
        assert {int(living), int(array)} <= set(jobs.submitted() or ())
        assert jobs.cancel() == ()
        assert CommandJobs(str(folder), environment).submitted() == ()


@pytest.mark.root
def test_slurm_lists_no_batch_job_for_a_command_that_runs_srun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with slurm_cluster(tmp_path / "slurm", monkeypatch) as cluster:
        srun = subprocess.Popen(["srun", f"--chdir={tmp_path}", "sleep", "600"])
        jobs = CommandJobs(str(tmp_path), os.environ)
        until(lambda: cluster.ask("squeue", "--noheader", "--states=RUNNING"), "the job of srun", seconds=60.0)
        assert jobs.submitted() == ()
        assert jobs.cancel() == ()
        assert srun.wait(60) != 0
