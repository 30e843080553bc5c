"""A job whose command submits jobs to Slurm itself ends with them."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.verbs.stop import judge_slurm_left
from remote.errors import RemoteFault
from remote.operations.jobs import adopt_job, start_job, stop_job
from remote.payload.files.records import read_record, write_record
from remote.payload.jobs.evidence import gather_evidence
from remote.payload.jobs.records import Submissions
from remote.payload.jobs.state import judge_job
from remote.payload.jobs.verdict import judge_end
from remote.payload.processes.command_jobs import CANCEL_FOR_S, CommandJobs
from remote.payload.processes.identity import descendants
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Severity
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobState, Started
from remote.protocol.layout import RunLayout
from tests.lab.processes import alive
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench
from tests.remote.jobs.squeue_cluster import Cluster


def start(bench: Bench, cluster: Cluster) -> None:
    """Start a job whose command has submitted a job to Slurm and ends at once."""
    command = f'echo "7 RUNNING $(date +%s) $PWD" > {cluster.listed}'
    spec = replace(bench.spec(), argv=("sh", "-c", command), environment=cluster.environment)
    start_job(bench.host, StartRequest(PROJECT, spec, "tiny"))
    until(lambda: "its jobs in Slurm are awaited: 7" in bench.output(), "the job in Slurm", seconds=60.0)


def test_a_job_runs_until_the_jobs_have_ended_that_its_command_has_submitted(bench: Bench, cluster: Cluster) -> None:
    start(bench, cluster)
    assert bench.survey().state is JobState.RUNNING
    cluster.end("COMPLETED")
    until(lambda: bench.survey().state is JobState.SUCCEEDED, seconds=60.0)
    assert "7" not in cluster.calls.read_text()


@pytest.mark.parametrize("state", ["FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY"])
def test_a_job_fails_if_a_job_that_its_command_has_submitted_failed(bench: Bench, cluster: Cluster, state: str) -> None:
    start(bench, cluster)
    cluster.end(state)
    until(lambda: bench.survey().state is not JobState.RUNNING, seconds=60.0)
    survey = bench.survey()
    assert survey.state is JobState.FAILED and survey.result is not None
    assert survey.result.reason == f"the command submitted jobs to Slurm that failed: 7 ({state})"


def test_a_stop_cancels_the_jobs_that_the_command_has_submitted(bench: Bench, cluster: Cluster) -> None:
    start(bench, cluster)
    assert stop_job(bench.host, PROJECT, bench.spec().run).state is JobState.STOPPED
    assert "-- 7" in cluster.calls.read_text().splitlines()


def test_a_stop_names_the_jobs_whose_end_slurm_does_not_confirm(bench: Bench, cluster: Cluster, tmp_path: Path) -> None:
    cluster.list(f"7 RUNNING 9 {tmp_path}")
    now = 0.0
    jobs = CommandJobs(str(tmp_path), cluster.environment, clock=lambda: now)
    cluster.answer("exit 1")
    now = CANCEL_FOR_S
    jobs.cancel()
    bench.start()
    until(lambda: bench.survey().result, "the end")
    Path(bench.job().stop).touch()
    result = judge_end(gather_evidence(bench.layout, bench.job(), bench.spec(), 9, command_jobs=jobs), 0.0)
    assert result.stopped and result.slurm_left == (7,)
    assert result.reason == "stopped on request; its jobs in Slurm may still run: 7"
    (finding,) = judge_slurm_left(result, "titan")
    assert (finding.severity, finding.exit_code) == (Severity.ERROR, ExitCode.BUSY)
    assert finding.hint == "scancel 7   (on titan)"


def test_a_job_in_slurm_counts_after_every_process_of_its_run_was_killed(bench: Bench, cluster: Cluster) -> None:
    submit = f'echo "7 PENDING $(date +%s) $PWD" > {cluster.listed}; exec sleep 600'
    spec = replace(bench.spec(), argv=("sh", "-c", submit), environment=cluster.environment)
    started = start_job(bench.host, StartRequest(PROJECT, spec, "tiny")).started
    assert started is not None
    until(cluster.listed.read_text, "the job in Slurm")
    pids = [started.pid, *(process.pid for process in descendants(started.pid))]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(map(alive, pids)), "the end of all processes")
    assert bench.survey().state is JobState.RUNNING
    again = replace(bench.spec(), number=2)
    with pytest.raises(RemoteFault, match=r"job 1 of .* is still running"):
        start_job(bench.host, StartRequest(PROJECT, again, "tiny"))
    assert stop_job(bench.host, PROJECT, bench.run).state is JobState.STOPPED
    assert "-- 7" in cluster.calls.read_text().splitlines()


def test_lost_runs_do_not_wait_for_slurm_one_after_another(
    bench: Bench, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.answer(f'echo failed >> "{cluster.calls}"; exit 1')
    monkeypatch.setenv("PATH", cluster.environment["PATH"])
    for number in range(3):
        run = RunLayout(str(bench.workdir / str(number)))
        Path(run.job(1).root).mkdir(parents=True)
        write_record(run.job(1).supervisor, Started(2**22 + 1, 1, "earlier"))
        assert judge_job(run, 1).state is JobState.LOST
    assert cluster.calls.read_text().count("failed") == 1


def test_a_job_that_was_known_and_is_no_longer_listed_did_not_succeed(
    bench: Bench, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remote.payload.jobs.slurm.end_state", {"1": "COMPLETED", "2": "FAILED", "3": ""}.__getitem__)
    jobs = CommandJobs(str(bench.workdir), cluster.environment, known=("1", "2", "3"))
    bench.start()
    until(lambda: bench.survey().result, "the end")
    result = judge_end(gather_evidence(bench.layout, bench.job(), bench.spec(), 0, command_jobs=jobs), 0.0)
    assert result.exit == 1
    assert result.reason.endswith("that failed: 2 (FAILED), 3 (its end is unknown)")


def test_a_supervisor_that_adopts_a_job_knows_the_jobs_that_its_command_submitted(
    bench: Bench, cluster: Cluster
) -> None:
    start(bench, cluster)
    survey = bench.survey()
    assert survey.started is not None
    until(lambda: read_record(bench.job().command_jobs, Submissions) == Submissions(("7",)), "the record")
    os.kill(survey.started.pid, signal.SIGKILL)
    until(lambda: not alive(survey.started.pid), "the supervisor's end")
    cluster.list()  # MinJobAge seconds after its end
    adopt_job(bench.host, PROJECT, bench.run)
    until(lambda: bench.survey().state is JobState.FAILED, "the end", seconds=60.0)


def test_a_job_runs_on_while_slurm_does_not_answer(bench: Bench, cluster: Cluster) -> None:
    start(bench, cluster)
    cluster.answer(f'echo failed >> "{cluster.calls}"; exit 1')
    until(lambda: cluster.calls.read_text().count("failed") >= 2, "squeue", seconds=60.0)
    assert bench.survey().state is JobState.RUNNING
    cluster.end("COMPLETED")
    cluster.answer(f'cat "{cluster.listed}"')
    until(lambda: bench.survey().state is JobState.SUCCEEDED, seconds=60.0)
