"""A job whose supervisor was killed is neither lost nor started again; after a reboot it is lost."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from remote.errors import RemoteFault
from remote.link.local import local_host
from remote.operations.jobs import adopt_job, follow_job, start_job, stop_job
from remote.payload.processes.identity import read_process
from remote.protocol.exits import ExitCode
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobState, Progress
from remote.pull.live import follow_events
from remote.pull.log import follow_log
from tests.lab.processes import alive
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench, ours
from tests.remote.jobs.orphaned import kill_exit_recorder, orphan


def test_FI_42_a_trainer_without_its_supervisor_is_running_and_listed(bench: Bench):
    pid = orphan(bench, "--workers", 1, "--until", "/never")
    until(lambda: bench.events("worker"), "the worker")
    run = bench.survey()
    assert run.state is JobState.RUNNING
    assert set(run.orphans) == {pid, bench.events("worker")[0]["worker"]}


def test_FI_42_a_job_without_its_supervisor_is_never_started_again(bench: Bench):
    orphan(bench, "--until", "/never")
    assert bench.start("--until", "/never").fresh is False
    with pytest.raises(RemoteFault, match="without its supervisor") as fault:
        bench.start(number=2)
    assert fault.value.exit_code is ExitCode.BUSY
    assert len(bench.events("begin")) == 1


def test_FI_42_an_adopted_job_is_watched_to_its_end(bench: Bench):
    go = bench.workdir / "go"
    orphan(bench, "--steps", 3, "--until", go, steps=3)
    Path(bench.layout.adapter).mkdir()
    adopted = adopt_job(bench.host, PROJECT, bench.run)
    assert adopted.state is JobState.RUNNING
    assert adopted.started.backend == "adopted"
    assert bench.survey().orphans == ()
    assert adopt_job(bench.host, PROJECT, bench.run).started == adopted.started
    go.touch()
    assert until(lambda: bench.survey().result, "the end").exit == 0
    assert bench.survey().state is JobState.SUCCEEDED


def test_FI_42_an_adopted_job_that_did_not_finish_its_work_failed(bench: Bench):
    pid = orphan(bench, "--steps", 3, "--until", "/never", steps=10)
    adopt_job(bench.host, PROJECT, bench.run)
    os.kill(pid, signal.SIGKILL)
    result = until(lambda: bench.survey().result, "the end")
    assert (result.exit, result.signal) == (137, 9)


def test_an_adopted_job_without_an_exit_status_is_judged_by_its_files(bench: Bench):
    pid = orphan(bench, "--steps", 3, "--until", "/never", steps=10)
    kill_exit_recorder(bench)
    assert adopt_job(bench.host, PROJECT, bench.run).started.backend == "adopted"
    assert alive(pid), "a trainer that goes on must not be ended with its witness"
    os.kill(pid, signal.SIGKILL)
    result = until(lambda: bench.survey().result, "the end")
    assert result.exit == 1
    assert "unknown" in result.reason


@pytest.mark.parametrize(("words", "state", "exit_code"), [((), "succeeded", 0), (("--exit", 3), "failed", 3)])
def test_a_job_that_ended_without_a_supervisor_has_the_result_of_its_trainer(
    bench: Bench, words: tuple[object, ...], state: str, exit_code: int
):
    go = bench.workdir / "go"
    pid = orphan(bench, "--until", go, *words)
    go.touch()
    until(lambda: not alive(pid) and bench.survey().state is JobState.LOST, "the end that nobody saw")
    settled = adopt_job(bench.host, PROJECT, bench.run)
    assert (settled.state.value, settled.result.exit) == (state, exit_code)
    assert bench.start("--until", go).fresh is False


@pytest.mark.parametrize(
    ("steps", "adapter", "state"),
    [(3, True, JobState.SUCCEEDED), (3, False, JobState.LOST), (4, True, JobState.LOST)],
    ids=["finished", "no adapter", "a step is missing"],
)
def test_without_an_exit_status_the_last_step_and_the_adapter_show_success(
    bench: Bench, steps: int, adapter: bool, state: JobState
):
    pid = orphan(bench, "--steps", 3, "--until", "/never", steps=steps)
    until(lambda: (bench.survey().progress or Progress(0)).step == 3, "the last step")
    if adapter:
        Path(bench.layout.adapter).mkdir()
    kill_exit_recorder(bench)
    os.kill(pid, signal.SIGKILL)
    until(lambda: bench.survey().state is JobState.LOST, "the end that nobody saw")
    adopt_job(bench.host, PROJECT, bench.run)
    assert bench.survey().state is state


def test_an_adapter_of_an_earlier_job_does_not_show_success_of_a_later_one(bench: Bench):
    Path(bench.layout.adapter).mkdir(parents=True)
    os.utime(bench.layout.adapter, (1.0, 1.0))
    pid = orphan(bench, "--steps", 3, "--until", "/never", steps=3)
    until(lambda: (bench.survey().progress or Progress(0)).step == 3, "the last step")
    kill_exit_recorder(bench)
    os.kill(pid, signal.SIGKILL)
    until(lambda: bench.survey().state is JobState.LOST, "the end that nobody saw")
    adopt_job(bench.host, PROJECT, bench.run)
    assert bench.survey().state is JobState.LOST


def test_followers_see_the_end_of_a_job_whose_supervisor_was_killed(bench: Bench):
    go = bench.workdir / "go"
    bench.start("--steps", 2, "--until", go)
    until(lambda: bench.events("begin"), "the trainer")
    last = None
    for last in follow_job(bench.host, PROJECT, bench.run):
        if last.progress is not None and last.progress.step == 2 and not go.exists():
            os.kill(bench.survey().started.pid, signal.SIGKILL)
            go.touch()
    assert last.state is JobState.SUCCEEDED


@pytest.mark.parametrize("lost", [False, True], ids=["ends by itself", "is lost"])
def test_output_and_curves_of_a_job_without_supervisor_are_followed_to_its_end(
    bench: Bench, lost: bool, tmp_path: Path
):
    go = bench.workdir / "go"
    pid = orphan(bench, "--print", "hello", "--until", go)
    if lost:
        kill_exit_recorder(bench)
        os.kill(pid, signal.SIGKILL)
    else:
        go.touch()
    assert b"".join(follow_log(bench.host, PROJECT, bench.run)) == b"hello\n"
    assert list(follow_events(bench.host, PROJECT, bench.run, tmp_path)) == []
    assert bench.survey().state is (JobState.LOST if lost else JobState.SUCCEEDED)


def test_a_job_outlives_its_supervisor_and_the_agent_that_started_it(bench: Bench):
    go = bench.workdir / "go"
    pid = orphan(bench, "--until", go)
    for agent in ours(bench.workdir):
        if agent not in (pid, bench.survey().started.child_pid):
            os.kill(agent, signal.SIGKILL)
    bench.host.close()
    bench.host = local_host(str(bench.workdir))
    adopt_job(bench.host, PROJECT, bench.run)
    assert bench.survey().started.backend == "adopted"
    go.touch()
    until(lambda: bench.survey().state is JobState.SUCCEEDED, "the end")


def test_a_verb_that_removes_its_payload_leaves_the_supervisors_payload(bench: Bench):
    go = bench.workdir / "go"
    orphan(bench, "--until", go)
    bench.host.close()
    for payload in (bench.workdir / "payload").iterdir():
        payload.unlink()
    bench.host = local_host(str(bench.workdir), keep=False)
    adopt_job(bench.host, PROJECT, bench.run)
    bench.host.close()
    go.touch()
    until(lambda: Path(bench.job().result).exists(), "the result")
    assert json.loads(Path(bench.job().result).read_bytes())["exit"] == 0
    bench.host = local_host(str(bench.workdir))


@pytest.mark.parametrize("launcher_killed", [False, True], ids=["torchrun lives", "torchrun was killed too"])
def test_two_ranks_without_supervisor_train_to_their_end(bench: Bench, launcher_killed: bool):
    go = bench.workdir / "go"
    torchrun = (bench.python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    spec = bench.spec("--steps", 3, "--until", go, steps=3)
    spec = replace(spec, argv=(*torchrun, *spec.argv[1:]), processes=2)
    start_job(bench.host, StartRequest(PROJECT, spec, "tiny"))
    ranks = [row["pid"] for row in until(lambda: len(bench.events("begin")) == 2 and bench.events("begin"), "ranks")]
    supervisor = bench.survey().started.pid
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not alive(supervisor), "the supervisor's end")
    if launcher_killed:
        launcher = read_process(ranks[0]).parent
        kill_exit_recorder(bench)
        os.kill(launcher, signal.SIGKILL)
        until(lambda: not alive(launcher), "the launcher's end")
    adopt_job(bench.host, PROJECT, bench.run)
    assert all(alive(rank) for rank in ranks)
    Path(bench.layout.adapter).mkdir()
    go.touch()
    until(lambda: bench.survey().state is JobState.SUCCEEDED, "the end", 60.0)
    assert not any(alive(rank) for rank in ranks)


def test_FI_42_a_stop_ends_orphans_too(bench: Bench):
    pid = orphan(bench, "--workers", 2, "--stubborn", "--until", "/never", grace_s=0.5)
    until(lambda: len(bench.events("worker")) == 2, "the workers")
    answer = stop_job(bench.host, PROJECT, bench.run)
    assert answer.result.stopped
    assert not any(alive(row["worker"]) for row in bench.events("worker"))
    assert not alive(pid)
