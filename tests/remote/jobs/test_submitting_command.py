"""A job whose command submits jobs to Slurm itself: halfstep does not follow them, but leaves none unnoticed."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest

from pipeline.diagnosis.diagnose import diagnose_log
from remote.errors import RemoteFault
from remote.operations.jobs import start_job, stop_job
from remote.payload.processes.command_jobs import SUBMITS
from remote.payload.processes.identity import descendants
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobState, StartAnswer
from tests.lab.processes import alive
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench
from tests.remote.jobs.squeue_cluster import Cluster

SUBMIT = "printf '%-32s%-16s%-32s%-256s%s\\n' 7 1 RUNNING mine \"$PWD\" > {}"


def start(bench: Bench, cluster: Cluster, then: str = "true", *, number: int = 1) -> StartAnswer:
    """Start a job whose command submits a job to Slurm."""
    command = f"{SUBMIT.format(cluster.listed)}; {then}"
    spec = replace(bench.spec(), argv=("sh", "-c", command), environment=cluster.environment, number=number)
    return start_job(bench.host, StartRequest(PROJECT, spec, "tiny"))


def start_and_kill(bench: Bench, cluster: Cluster) -> None:
    """Start a job that submits a job to Slurm, and kill all of its own processes."""
    started = start(bench, cluster, "exec sleep 600").started
    assert started is not None
    until(cluster.listed.read_text, "the job in Slurm")
    pids = [started.pid, *(process.pid for process in descendants(started.pid))]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(map(alive, pids)), "the end of all processes")


@pytest.mark.parametrize(("then", "exit_code"), [("true", 1), ("exit 3", 3)])
def test_a_run_fails_if_its_command_leaves_a_job_in_slurm(
    bench: Bench, cluster: Cluster, then: str, exit_code: int
) -> None:
    start(bench, cluster, then)
    result = until(lambda: bench.survey().result, "the end")
    assert (bench.survey().state, result.exit) == (JobState.FAILED, exit_code)
    assert result.reason.endswith("; its jobs in Slurm still run: 7")
    assert [one.check for one in diagnose_log(bench.output())] == [SUBMITS]
    assert not cluster.calls.exists() or "7" not in cluster.calls.read_text()


def test_a_command_that_waits_for_its_jobs_is_judged_by_its_exit_status(bench: Bench, cluster: Cluster) -> None:
    start(bench, cluster, f": > {cluster.listed}")
    until(lambda: bench.survey().result, "the end")
    assert bench.survey().state is JobState.SUCCEEDED


def test_a_stop_cancels_the_jobs_that_the_command_has_submitted(bench: Bench, cluster: Cluster) -> None:
    start(bench, cluster, "exec sleep 600")
    until(cluster.listed.read_text, "the job in Slurm")
    answer = stop_job(bench.host, PROJECT, bench.run)
    assert (answer.state, answer.slurm_left) == (JobState.STOPPED, ())
    assert "-- 7" in cluster.calls.read_text().splitlines()


def test_a_second_stop_cancels_what_the_first_one_could_not(bench: Bench, cluster: Cluster) -> None:
    start(bench, cluster, "exec sleep 600")
    until(cluster.listed.read_text, "the job in Slurm")
    cluster.answer("exit 1")
    answer = stop_job(bench.host, PROJECT, bench.run)
    assert (answer.state, answer.slurm_left) == (JobState.STOPPED, None)
    cluster.answer(f'cat "{cluster.listed}"')
    answer = stop_job(bench.host, PROJECT, bench.run)
    assert (answer.state, answer.slurm_left) == (JobState.STOPPED, ())
    assert cluster.calls.read_text().splitlines()[-1] == "-- 7"


def test_a_squeue_that_never_answered_is_no_warning(bench: Bench, cluster: Cluster) -> None:
    cluster.answer("exit 1")
    spec = replace(bench.spec(), environment=cluster.environment)
    start_job(bench.host, StartRequest(PROJECT, spec, "tiny"))
    assert stop_job(bench.host, PROJECT, bench.run).slurm_left == ()


def test_no_job_is_started_beside_a_job_in_slurm(bench: Bench, cluster: Cluster) -> None:
    start_and_kill(bench, cluster)
    assert bench.survey().state is JobState.LOST
    with pytest.raises(RemoteFault, match=r"submitted jobs to Slurm, which still run: 7") as refused:
        start(bench, cluster, number=2)
    assert refused.value.hint.endswith(f"pipeline stop {bench.run}")
    assert stop_job(bench.host, PROJECT, bench.run).slurm_left == ()
    assert "-- 7" in cluster.calls.read_text().splitlines()
    start(bench, cluster, f": > {cluster.listed}", number=2)
    until(lambda: bench.survey().state is JobState.SUCCEEDED, "the second job")


def test_a_shutdown_of_the_login_node_cancels_nothing(bench: Bench, cluster: Cluster) -> None:
    started = start(bench, cluster, "exec sleep 600").started
    until(cluster.listed.read_text, "the job in Slurm")
    assert started is not None
    os.kill(started.pid, signal.SIGTERM)
    until(lambda: bench.survey().result, "the end")
    assert "7" not in cluster.calls.read_text()
