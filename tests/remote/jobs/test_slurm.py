"""A host with `scheduler: slurm`: the same job through the queue of a real cluster of one node."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.errors import RemoteFault
from remote.operations.jobs import follow_job, list_jobs, stop_job
from remote.payload.jobs.continuation import reason_not_to_continue
from remote.payload.jobs.slurm import render_script
from remote.payload.jobs.supervisor_start import queue_array, queue_job
from remote.payload.processes.launch import take_launch
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobSpec, JobState
from remote.protocol.layout import JobLayout
from tests.lab.processes import processes_of
from tests.lab.slurm import Slurm, slurm_cluster
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench

SLURM = {"backend": "slurm"}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    with slurm_cluster(tmp_path / "slurm", monkeypatch) as running:
        yield running


@pytest.mark.root
def test_a_job_goes_through_the_queue_once_and_its_result_says_how_it_ended(bench: Bench, cluster: Slurm):
    canary = "hf_canary_0123456789"
    words = ("--steps", 4, "--save-every", 2, "--print", "$HF_TOKEN", "--exit", 3)
    request = {**SLURM, "secrets": {"HF_TOKEN": canary}}
    first = bench.start(*words, secrets=("HF_TOKEN",), request=request)
    assert first.state is JobState.RUNNING
    assert bench.start(*words, secrets=("HF_TOKEN",), request=request).fresh is False
    result = until(lambda: bench.survey().result, "the end")
    assert result.exit == 3
    assert bench.survey().started.backend == "slurm"
    assert [checkpoint.problem for checkpoint in bench.survey().checkpoints] == ["", ""]
    assert len(bench.events("begin")) == 1
    assert bench.output().strip() == canary
    left = [path for path in bench.workdir.rglob("*") if path.is_file() and canary.encode() in path.read_bytes()]
    assert left == [Path(bench.job().output)], "only the trainer itself may print its secret"


@pytest.mark.root
def test_a_stop_reaches_the_supervisor_on_its_node(bench: Bench, cluster: Slurm):
    bench.start("--steps", 100000, "--on-term", "save", "--workers", 2, "--stubborn", grace_s=3.0, request=SLURM)
    until(lambda: len(bench.events("worker")) == 2 and bench.survey().progress, "a step")
    answer = stop_job(bench.host, PROJECT, bench.run)
    assert answer.result.stopped
    assert answer.result.exit == 143
    assert len(bench.events("saved")) == 1
    until(lambda: not cluster.ask("squeue", "--noheader"), "an empty queue")
    assert processes_of(Path(bench.layout.root)) == []


@pytest.mark.root
def test_a_SIGTERM_that_slurm_sends_is_a_preemption(bench: Bench, cluster: Slurm):
    bench.start("--steps", 100000, "--on-term", "save", request=SLURM)
    until(lambda: bench.survey().progress, "a step")
    cluster.ask("scancel", "--signal=TERM", "--batch", cluster.ask("squeue", "--noheader", "--format=%i").strip())
    result = until(lambda: bench.survey().result, "the end")
    assert result.preempted
    assert not result.stopped


def reach_time_limit(cluster: Slurm, bench: Bench, number: int = 1) -> None:
    """Send the signal that Slurm sends before the time limit, because the real limit takes over a minute."""
    submitted = json.loads(Path(bench.job(number).submitted).read_text())
    cluster.ask("scancel", "--signal=USR1", "--batch", submitted["slurm_job"])


@pytest.mark.root
def test_a_job_at_its_time_limit_is_continued_by_the_next_one_with_its_secrets(
    bench: Bench, cluster: Slurm, tmp_path: Path
):
    words = ("--steps", 20, "--on-term", "save", "--until", tmp_path / "enough", "--print", "$HF_TOKEN")
    request = {**SLURM, "slurm": ("--comment=mine",), "max_jobs": 2, "secrets": {"HF_TOKEN": "hf_canary"}}
    bench.start(*words, secrets=("HF_TOKEN",), request=request)
    followed = follow_job(bench.host, PROJECT, bench.run)
    assert next(followed).number == 1
    until(lambda: (found := bench.survey().progress) and found.step == 20, "every step")
    reach_time_limit(cluster, bench)
    until(lambda: len(bench.events("begin")) == 2, "the second job")
    assert bench.survey().state is JobState.RUNNING
    (tmp_path / "enough").touch()
    last = list(followed)[-1]
    assert (last.number, last.state) == (2, JobState.SUCCEEDED)
    first, second = list_jobs(bench.host, PROJECT, bench.run)
    assert first.result.preempted
    assert first.result.reason == "ended before Slurm's time limit; checkpoints/checkpoint-20 is kept; job 2 continues"
    assert second.state is JobState.SUCCEEDED
    assert bench.events("begin")[1]["resume"].endswith("/checkpoint-20")
    assert bench.output(2).strip() == "hf_canary"
    assert list(Path(bench.layout.root).rglob("launch-*")) == []


@pytest.mark.parametrize(
    ("resume_from", "newest", "jobs_left", "stopped", "words"),
    [
        ("", 40, 1, False, ""),
        ("/run/checkpoints/checkpoint-40", 41, 9, False, ""),
        ("", 40, 0, False, "the run has used all its jobs (slurm.max_jobs)"),
        (
            "/run/checkpoints/checkpoint-40",
            40,
            9,
            False,
            "no new checkpoint since step 40; the time limit is too short",
        ),
        ("", 0, 9, False, "no new checkpoint since step 0; the time limit is too short"),
        ("", 40, 9, True, "stopped on request"),
    ],
)
def test_a_run_is_continued_only_if_it_has_progressed_and_may_have_another_job(
    resume_from: str, newest: int, jobs_left: int, stopped: bool, words: str
):
    spec = JobSpec("tiny-01234567", 2, "f" * 64, ("true",), resume_from=resume_from, jobs_left=jobs_left)
    assert reason_not_to_continue(spec, newest, stopped=stopped) == words


@pytest.mark.root
def test_a_run_stays_preempted_if_slurm_refuses_its_next_job(
    bench: Bench, cluster: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    refusing = tmp_path / "bin"
    refusing.mkdir()
    lines = (
        "#!/bin/sh",
        f'[ -e {tmp_path}/full ] || exec /usr/bin/sbatch "$@"',
        "echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2",
        "exit 1",
    )
    (refusing / "sbatch").write_text("\n".join(lines))
    (refusing / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{refusing}{os.pathsep}{os.environ['PATH']}")
    bench.start("--steps", 100000, "--on-term", "save", request={**SLURM, "max_jobs": 3})
    until(lambda: bench.survey().progress, "a step")
    (tmp_path / "full").touch()
    reach_time_limit(cluster, bench)
    result = until(lambda: bench.survey().result, "the end")
    assert result.preempted
    assert "not continued: sbatch: sbatch: error: QOSMaxSubmitJobPerUserLimit" in result.reason
    assert [job.number for job in list_jobs(bench.host, PROJECT, bench.run)] == [1]


@pytest.mark.root
def test_a_stop_ends_the_waiting_continuation_of_a_run_too(bench: Bench, cluster: Slurm):
    bench.start("--steps", 100000, "--on-term", "save", request={**SLURM, "max_jobs": 9})
    until(lambda: bench.survey().progress, "a step")
    cluster.ask("scontrol", "update", f"NodeName={cluster.nodes[0]}", "State=DRAIN", "Reason=test")
    reach_time_limit(cluster, bench)
    until(lambda: bench.survey().job == 2, "the second job in the queue")
    answer = stop_job(bench.host, PROJECT, bench.run, grace_s=1)
    assert (answer.number, answer.state) == (2, JobState.STOPPED)
    assert cluster.ask("squeue", "--noheader") == ""


@pytest.mark.root
def test_a_waiting_job_counts_as_running_with_its_reason_and_can_be_cancelled(bench: Bench, cluster: Slurm):
    waiting = {**SLURM, "slurm": ("--begin=now+1hour",), "secrets": {"HF_TOKEN": "hf_canary"}}
    assert bench.start(request=waiting, secrets=("HF_TOKEN",)).state is JobState.RUNNING
    assert list(Path(bench.job().root).glob("launch-*"))
    run = bench.survey()
    assert (run.state, run.started) == (JobState.RUNNING, None)
    assert "PENDING" in run.waits
    with pytest.raises(RemoteFault) as fault:
        bench.start(number=2, request=SLURM)
    assert fault.value.exit_code is ExitCode.BUSY
    answer = stop_job(bench.host, PROJECT, bench.run, grace_s=1)
    assert answer.result.stopped
    assert "before it began" in answer.result.reason
    assert list(Path(bench.job().root).glob("launch-*")) == []
    assert bench.events("begin") == []
    assert cluster.ask("squeue", "--noheader") == ""


@pytest.mark.root
def test_FI_40_a_submission_whose_number_was_lost_is_found_in_the_queue(bench: Bench, cluster: Slurm):
    waiting = {**SLURM, "slurm": ("--begin=now+1hour",)}
    bench.start(request=waiting)
    Path(bench.job().submitted).unlink()
    bench.start(request=waiting)
    assert len(cluster.ask("squeue", "--noheader").splitlines()) == 1
    stop_job(bench.host, PROJECT, bench.run, grace_s=1)


@pytest.mark.root
@pytest.mark.parametrize("squeue", ["exit 1", "sleep 600"])
def test_an_unreachable_slurm_controller_does_not_count_as_the_end_of_a_job(
    bench: Bench, cluster: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, squeue: str
):
    bench.start(request={**SLURM, "slurm": ("--begin=now+1hour",)})
    bench.host.close()
    (tmp_path / "squeue").write_text(f"#!/bin/sh\n{squeue}\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert bench.survey().state is JobState.RUNNING


@pytest.mark.parametrize("array", [False, True])
def test_SE_22_slurm_does_not_store_declared_secrets_that_the_environment_contains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, array: bool
) -> None:
    """With `--host local`, the agent has the environment of the laptop."""
    (tmp_path / "squeue").write_text("#!/bin/sh\n")
    (tmp_path / "sbatch").write_text(f"#!/bin/sh\nenv > {tmp_path}/stored\ncat > /dev/null\necho 7\n")
    for name in ("squeue", "sbatch"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("SEED", "31")
    job = JobLayout(str(tmp_path / "run/jobs/1"))
    Path(job.root).mkdir(parents=True)
    if array:
        queue_array("/p", str(tmp_path), [(job, {"HF_TOKEN": "hf_secret"})], (), 5.0)
    else:
        queue_job("/p", job, JobSpec("r-1", 1, "", ("true",), secrets=("HF_TOKEN",)), {"HF_TOKEN": "hf_secret"}, ())
    stored = (tmp_path / "stored").read_text()
    assert "hf_secret" not in stored
    assert "SEED=31" in stored
    [launch] = Path(job.root).glob("launch-*")
    assert take_launch(str(launch)).secrets == {"HF_TOKEN": "hf_secret"}


@pytest.mark.root
def test_a_refusal_of_slurm_is_quoted(bench: Bench, cluster: Slurm):
    with pytest.raises(RemoteFault, match=r"sbatch: .*partition") as fault:
        bench.start(request={**SLURM, "slurm": ("--partition=nowhere",), "secrets": {"HF_TOKEN": "x"}})
    assert fault.value.exit_code is ExitCode.ENVIRONMENT
    assert list(Path(bench.job().root).glob("launch-*")) == []


def test_missing_slurm_on_the_host_is_reported(bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for name in ("sh", "python3"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RemoteFault, match="squeue is not installed on this host"):
        bench.start(request=SLURM)


def test_the_batch_script_becomes_the_supervisor():
    argv = ["/usr/bin/python3", "/work dir/p.pyz", "supervise", "it's"]
    batch = render_script("name", "/a b/100%/log", argv, ("--gres=gpu:1", "--comment=two words"), 60.0)
    assert batch.script == f"#!/bin/sh\nexec {shlex.join(argv)}\n"
    assert batch.options == (
        "--job-name=name",
        "--output=/a b/100%%/log",
        "--signal=B:USR1@90",
        "--no-requeue",
        "--gres=gpu:1",
        "--comment=two words",
    )


@pytest.mark.parametrize("option", ["rm -rf /", "--x=1\nrm -rf /", "x", "", "--a b"])
def test_an_option_cannot_start_a_new_line(option: str):
    with pytest.raises(Refusal):
        render_script("name", "/log", ["true"], (option,), 60.0)
