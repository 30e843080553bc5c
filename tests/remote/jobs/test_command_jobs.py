"""The jobs in Slurm that a command has submitted: which ones count, and how they are cancelled."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pipeline.verbs.stop import judge_slurm_left
from remote.payload.jobs.slurm import queue_state
from remote.payload.processes.command_jobs import ANSWER_IN_S, CANCEL_FOR_S, QUEUE_POLL_S, CommandJobs
from remote.protocol.findings import Severity
from remote.protocol.jobs import JobResult
from tests.lab.slurm import slurm_cluster
from tests.lab.wait import until
from tests.remote.jobs.squeue_cluster import Cluster


def test_a_stop_warns_of_unseen_jobs_if_slurm_does_not_answer() -> None:
    (finding,) = judge_slurm_left(JobResult(0, stopped=True, slurm_left=None), "titan")
    assert finding.severity is Severity.WARNING
    assert judge_slurm_left(JobResult(0, stopped=True), "titan") == judge_slurm_left(None, "titan") == ()


def test_only_jobs_below_the_folder_count(cluster: Cluster, tmp_path: Path) -> None:
    inside, beside = tmp_path / "run", tmp_path / "run2"
    inside.mkdir()
    (tmp_path / "link").symlink_to(inside)
    rows = ("1 RUNNING 9 {}", "2 RUNNING 9 {}", "3 PENDING 9 {}/code", "1 RUNNING 9 {}", "4", "5 RUNNING 9 /")
    folders = (inside, beside, tmp_path / "link", inside, "", "")
    cluster.list(*(row.format(folder) for row, folder in zip(rows, folders, strict=True)))
    assert CommandJobs(str(inside), cluster.environment).read() == ("1", "3")


def test_the_slurm_job_in_which_the_command_itself_runs_does_not_count(cluster: Cluster, tmp_path: Path) -> None:
    cluster.list(f"1 RUNNING 9 {tmp_path}", f"2 RUNNING 9 {tmp_path}")
    assert CommandJobs(str(tmp_path), cluster.environment, own=("1",)).read() == ("2",)


@pytest.mark.parametrize(
    ("rows", "failed"),
    [
        (("1 COMPLETED 100", "2 FAILED 101"), ["2"]),
        (("1 FAILED 10", "2 COMPLETED 100"), []),  # of an earlier command
        (("1 TIMEOUT 100", "2 COMPLETED 200"), []),  # a job that continues the first one
        (("1 COMPLETED 100", "2 TIMEOUT 200"), ["2"]),
        (("1 FAILED 100", "2 COMPLETED 200"), ["1"]),
        (("1 NODE_FAIL 100", "2 RUNNING 200"), ["1"]),
    ],
)
def test_a_job_that_a_later_one_continues_did_not_fail(
    cluster: Cluster, tmp_path: Path, rows: tuple[str, ...], failed: list[str]
) -> None:
    cluster.list(*(f"{row} {tmp_path}" for row in rows))
    jobs = CommandJobs(str(tmp_path), cluster.environment, since_unix=99.0)
    assert [job.number for job in jobs.failed] == failed


def test_a_failed_job_counts_when_it_is_no_longer_listed(cluster: Cluster, tmp_path: Path) -> None:
    cluster.list(f"1 FAILED 9 {tmp_path}")
    now = 0.0
    jobs = CommandJobs(str(tmp_path), cluster.environment, clock=lambda: now)
    cluster.list()
    now = QUEUE_POLL_S
    assert jobs.read() == ()
    assert [job.number for job in jobs.failed] == ["1"]


def test_hidden_partitions_and_the_filters_of_the_environment_are_no_limit(cluster: Cluster, tmp_path: Path) -> None:
    cluster.answer(f'case "$SQUEUE_PARTITION $*" in " --all "*) echo "1 RUNNING 9 {tmp_path}";; esac')
    environment = {**cluster.environment, "SQUEUE_PARTITION": "other"}
    assert CommandJobs(str(tmp_path), environment).read() == ("1",)


@pytest.mark.parametrize("answer", ["exit 1", "echo 1 RUNNING 9 /elsewhere", "echo garbage", "true"])
def test_nothing_is_found_or_cancelled_without_an_answer(cluster: Cluster, tmp_path: Path, answer: str) -> None:
    cluster.answer(answer)
    jobs = CommandJobs(str(tmp_path), cluster.environment)
    assert jobs.read() == ()
    assert not jobs.cancel() and not jobs.unanswered
    assert not cluster.calls.exists()


def test_without_squeue_nothing_is_found(tmp_path: Path) -> None:
    jobs = CommandJobs("/", {"PATH": str(tmp_path)})
    assert (jobs.read(), jobs.cancel(), jobs.unanswered) == ((), False, False)


def test_the_queue_is_asked_at_most_once_in_a_while(cluster: Cluster, tmp_path: Path) -> None:
    now = 0.0
    cluster.list(f"1 RUNNING 9 {tmp_path}")
    jobs = CommandJobs(str(tmp_path), cluster.environment, clock=lambda: now)
    assert jobs.read() == ("1",)
    cluster.list()
    now = QUEUE_POLL_S / 2
    assert jobs.read() == ("1",)
    now = QUEUE_POLL_S
    assert jobs.read() == ()
    assert cluster.calls.read_text() == "squeue\n" * 3


def test_the_jobs_that_were_listed_last_count_while_squeue_fails(cluster: Cluster, tmp_path: Path) -> None:
    now = 0.0
    cluster.list(f"1 RUNNING 9 {tmp_path}")
    jobs = CommandJobs(str(tmp_path), cluster.environment, clock=lambda: now)
    cluster.answer("exit 1")
    now = QUEUE_POLL_S
    assert jobs.read() == ("1",)
    assert jobs.cancel()
    cluster.answer("true")
    now = 2 * QUEUE_POLL_S
    assert (jobs.read(), jobs.cancel()) == ((), False)


def test_an_answer_of_slurm_is_awaited_for_a_limited_time(cluster: Cluster, tmp_path: Path) -> None:
    now = 0.0
    jobs = CommandJobs(str(tmp_path), cluster.environment, clock=lambda: now)
    cluster.answer("exit 1")
    now = QUEUE_POLL_S
    assert (jobs.read(), jobs.unanswered, jobs.undecided) == ((), True, True)
    assert jobs.cancel()
    now = QUEUE_POLL_S + CANCEL_FOR_S
    assert not jobs.cancel()
    now = QUEUE_POLL_S + ANSWER_IN_S
    assert (jobs.read(), jobs.unanswered, jobs.undecided) == ((), True, False)


def test_a_job_that_cannot_be_cancelled_is_awaited_for_a_limited_time(cluster: Cluster, tmp_path: Path) -> None:
    now = 0.0
    cluster.answer(f"echo 9 RUNNING 9 {tmp_path}")
    jobs = CommandJobs(str(tmp_path), cluster.environment, clock=lambda: now)
    assert jobs.cancel()
    assert cluster.calls.read_text().splitlines() == ["-- 9"]
    assert jobs.cancel()  # within a second, nobody is asked
    assert cluster.calls.read_text().splitlines() == ["-- 9"]
    now = CANCEL_FOR_S - 1
    assert jobs.cancel()
    now = CANCEL_FOR_S
    assert not jobs.cancel()


@pytest.mark.root
def test_slurm_lists_ended_and_hidden_jobs_with_their_state_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with slurm_cluster(tmp_path / "slurm", monkeypatch) as cluster:
        cluster.ask("scontrol", "update", "PartitionName=debug", "Hidden=YES")
        since = time.time()
        options = (f"--chdir={tmp_path}", "--parsable")
        failed = cluster.ask("sbatch", *options, "--wrap=exit 3").strip()
        living = cluster.ask("sbatch", *options, "--wrap=exec sleep 600").strip()
        environment = {**os.environ, "SQUEUE_STATES": "PENDING", "SQUEUE_PARTITION": "other"}
        jobs = CommandJobs(str(tmp_path), environment, since)
        until(lambda: jobs.read() == (living,), "the end of the first job", seconds=60.0)
        assert [(job.number, job.state) for job in jobs.failed] == [(failed, "FAILED")]
        assert queue_state(living).partition(" ")[0] in ("RUNNING", "PENDING")
        until(lambda: not jobs.cancel(), "the end of the second job", seconds=60.0)
        later = CommandJobs(str(tmp_path), environment, time.time() + 10)
        assert (later.living, later.failed) == ((), ())
