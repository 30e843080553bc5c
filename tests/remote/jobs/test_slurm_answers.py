"""Answers of Slurm's commands that get lost, fail, or have lines of the site in them."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from remote.operations.jobs import start_job, stop_job
from remote.payload.files.records import write_record
from remote.payload.jobs import continuation, slurm, state
from remote.payload.jobs.records import Submitted
from remote.payload.jobs.slurm import unit_name
from remote.payload.jobs.state import judge_job
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobSpec, JobState
from remote.protocol.layout import RunLayout
from tests.lab.slurm import Slurm, slurm_cluster
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench
from tests.remote.jobs.orphaned import orphan
from tests.remote.jobs.test_slurm import SLURM

WAITING = {**SLURM, "slurm": ("--begin=now+1hour",)}
Wrap = Callable[[str, str], None]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    with slurm_cluster(tmp_path / "slurm", monkeypatch) as running:
        yield running


@pytest.fixture
def wrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wrap:
    """A function that replaces a command of Slurm by a script, in which $real is the command."""
    folder = tmp_path / "site"
    folder.mkdir()
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{path}")

    def write(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\nreal={shutil.which(name, path=path)}\n{script}\n")
        (folder / name).chmod(0o755)

    return write


def submitted(bench: Bench) -> str:
    return str(json.loads(Path(bench.job().submitted).read_text())["slurm_job"])


@pytest.mark.root
def test_lines_that_a_site_adds_to_the_answer_of_sbatch_are_not_the_job_number(
    bench: Bench, cluster: Slurm, wrap: Wrap
) -> None:
    wrap("sbatch", 'echo "--- Welcome to 7 clusters; see the news ---"; echo "--> Verifying access...OK"; $real "$@"')
    bench.start(request=WAITING)
    assert submitted(bench) == cluster.ask("squeue", "--noheader", "--format=%i").strip()
    assert bench.survey().state is JobState.RUNNING
    assert stop_job(bench.host, PROJECT, bench.run, grace_s=1).state is JobState.STOPPED
    assert not cluster.ask("squeue", "--noheader")


@pytest.mark.root
def test_an_answer_of_sbatch_without_a_number_is_an_error(bench: Bench, cluster: Slurm, wrap: Wrap) -> None:
    wrap("sbatch", "cat > /dev/null; echo Welcome")
    with pytest.raises(Exception, match="no job number in the answer of sbatch: 'Welcome'"):
        bench.start(request=WAITING)
    assert bench.survey().state is JobState.ABSENT


@pytest.mark.root
def test_a_job_that_sbatch_queued_without_an_answer_keeps_its_secrets(bench: Bench, cluster: Slurm, wrap: Wrap) -> None:
    wrap("sbatch", '$real "$@" > /dev/null; echo "sbatch: error: Socket timed out on send/recv" >&2; exit 1')
    secret = {**SLURM, "secrets": {"HF_TOKEN": "hf_canary"}}
    bench.start("--steps", 2, "--print", "$HF_TOKEN", secrets=("HF_TOKEN",), request=secret)
    result = until(lambda: bench.survey().result, "the end")
    assert (result.exit, bench.output().strip()) == (0, "hf_canary")


@pytest.mark.root
def test_a_job_that_was_queued_before_the_agent_was_killed_is_found_by_its_name(
    bench: Bench, cluster: Slurm, wrap: Wrap
) -> None:
    bench.start(request=WAITING)
    write_record(bench.job().submitted, Submitted("", time.time(), unit_name(bench.job())))
    assert bench.survey().state is JobState.RUNNING
    wrap("squeue", "exit 1")
    bench.host.close()
    assert bench.survey().state is JobState.RUNNING
    wrap("squeue", '$real "$@"')
    assert stop_job(bench.host, PROJECT, bench.run, grace_s=1).state is JobState.STOPPED
    assert not cluster.ask("squeue", "--noheader")


@pytest.mark.root
def test_a_job_whose_submission_failed_was_not_started(bench: Bench, cluster: Slurm) -> None:
    with pytest.raises(Exception, match="sbatch: "):
        bench.start(request={**SLURM, "slurm": ("--partition=nonexistent",)})
    assert bench.survey().state is JobState.ABSENT
    assert not Path(bench.job().submitted).exists()


@pytest.mark.root
def test_a_stop_lets_a_training_save_also_if_squeue_does_not_answer(
    bench: Bench, cluster: Slurm, wrap: Wrap, tmp_path: Path
) -> None:
    """A plain scancel would leave it only KillWait seconds."""
    ready, got, enough = (tmp_path / name for name in ("ready", "got", "enough"))
    script = f"trap 'touch {got}' TERM; touch {ready}; until [ -e {enough} ]; do sleep 0.05; done; exit 0"
    spec = replace(bench.spec(), argv=("sh", "-c", script))
    start_job(bench.host, StartRequest(PROJECT, spec, "tiny", backend="slurm"))
    until(ready.exists, "the command")
    number = submitted(bench)
    wrap("squeue", "echo 'slurm_load_jobs error: Socket timed out on send/recv operation' >&2; exit 1")
    bench.host.close()
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(stop_job, bench.host, PROJECT, bench.run)
        try:
            until(got.exists, "the SIGTERM")
            assert "JobState=RUNNING" in cluster.ask("scontrol", "show", "job", number)
        finally:
            enough.touch()
        assert stopping.result().state is JobState.STOPPED


@pytest.mark.root
def test_a_stop_lets_the_notification_finish(bench: Bench, cluster: Slurm, tmp_path: Path) -> None:
    go, notified = tmp_path / "go", tmp_path / "notified"
    notify = f"until [ -e {go} ]; do sleep 0.05; done; echo $HALFSTEP_STATE > {notified}"
    bench.start("--steps", 100000, request=SLURM, notify=notify)
    until(lambda: bench.survey().progress, "a step")
    assert stop_job(bench.host, PROJECT, bench.run).state is JobState.STOPPED
    go.touch()
    until(notified.exists, "the notification")


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("NODE_FAIL", JobState.RUNNING),
        ("", JobState.RUNNING),
        ("CANCELLED", JobState.LOST),
        ("OUT_OF_MEMORY", JobState.LOST),
    ],
)
def test_a_job_on_a_node_that_slurm_has_lost_runs_as_long_as_it_writes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, end: str, expected: JobState
) -> None:
    """Slurm calls the job ended, although its processes go on."""
    orphan(bench, "--until", "/never")
    write_record(bench.job().submitted, Submitted("7"))
    monkeypatch.setattr(state, "boot_id", lambda: "another")
    monkeypatch.setattr(state, "orphans_of", lambda run, job: ())
    monkeypatch.setattr(state, "is_alive", lambda pid, ticks, boot: False)
    monkeypatch.setattr(slurm, "queue_state", lambda number: "")
    monkeypatch.setattr(slurm, "end_state", lambda number: end)
    assert judge_job(bench.layout, 1).state is expected


@pytest.mark.root
def test_variables_of_a_site_do_not_replace_the_options_of_a_job(
    bench: Bench, cluster: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For sbatch, they come before the lines of the script, and after its own options."""
    site = {"TIMELIMIT": "3:00:00", "JOB_NAME": "site", "REQUEUE": "1", "ARRAY_INX": "1-2", "ERROR": "/tmp/site"}
    for name, value in site.items():
        monkeypatch.setenv(f"SBATCH_{name}", value)
    monkeypatch.setenv("SBATCH_ACCOUNT", "usual")
    bench.start(request={**SLURM, "slurm": ("--begin=now+1hour", "--time=30")})
    job = cluster.ask("scontrol", "show", "job", submitted(bench))
    ours = (f"JobName={unit_name(bench.job())}", "TimeLimit=00:30:00", "Requeue=0", "Account=usual")
    assert [one for one in ours if f"{one}\n" not in job.replace(" ", "\n")] == []
    assert "ArrayJobId" not in job and "/tmp/site" not in job
    stop_job(bench.host, PROJECT, bench.run, grace_s=1)


@pytest.mark.root
@pytest.mark.parametrize("variable", ["SCANCEL_INTERACTIVE=1", "SCANCEL_PARTITION=nowhere", "SQUEUE_STATES=COMPLETED"])
def test_variables_that_filter_jobs_hide_none_from_stop(
    bench: Bench, cluster: Slurm, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    name, value = variable.split("=")
    with monkeypatch.context() as site:
        site.setenv(name, value)
        bench.start(request=WAITING)
        assert stop_job(bench.host, PROJECT, bench.run, grace_s=1).state is JobState.STOPPED
    assert cluster.ask("squeue", "--noheader") == ""


@pytest.mark.parametrize("stopped", [True, False])
def test_a_stop_of_the_next_job_stays_on_record_if_the_answer_of_sbatch_was_lost(
    tmp_path: Path, wrap: Wrap, stopped: bool
) -> None:
    run = RunLayout(str(tmp_path / "run"))
    result = run.job(2).result
    Path(run.job(2).root).mkdir(parents=True)
    write = f'echo \'{{"exit": 130, "stopped": true}}\' > {result}' if stopped else ":"
    wrap("sbatch", f"cat > /dev/null; {write}; echo 'sbatch: error: Socket timed out' >&2; exit 1")
    wrap("squeue", "exit 0")
    refused = continuation._queue("/p", run, JobSpec("r-1", 2, "", ("true",)), {})
    assert os.path.exists(result) is stopped
    assert ("timed out" in refused) is not stopped
