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
from remote.operations.jobs import adopt_job, follow_job, list_jobs, prepare_resume, start_job, stop_job
from remote.payload.processes.identity import boot_id, is_alive, read_process, send_signal
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobState, Progress, StartRequest
from remote.pull.live import follow_events
from remote.pull.log import follow_log
from tests.lab.processes import alive
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench, ours


def _kill_witness(bench: Bench) -> None:
    """Also kill the process that keeps the trainer's exit status."""
    witness = bench.survey().started.child_pid
    os.kill(witness, signal.SIGKILL)
    until(lambda: not alive(witness), "the witness's end")


def _orphan(bench: Bench, *words: object, **settings: object) -> int:
    """Start a trainer and kill its supervisor; returns the trainer's pid."""
    bench.start(*words, **settings)
    pid = until(lambda: bench.events("begin"), "the trainer")[0]["pid"]
    supervisor = bench.survey().started.pid
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not alive(supervisor), "the supervisor's end")
    return pid


def test_FI_42_a_trainer_without_its_supervisor_is_running_and_listed(bench: Bench):
    pid = _orphan(bench, "--workers", 1, "--until", "/never")
    until(lambda: bench.events("worker"), "the worker")
    run = bench.survey()
    assert run.state is JobState.RUNNING
    assert set(run.orphans) == {pid, bench.events("worker")[0]["worker"]}


def test_FI_42_a_job_without_its_supervisor_is_never_started_again(bench: Bench):
    _orphan(bench, "--until", "/never")
    assert bench.start("--until", "/never").fresh is False
    with pytest.raises(RemoteFault, match="without its supervisor") as fault:
        bench.start(number=2)
    assert fault.value.exit_code is ExitCode.BUSY
    assert len(bench.events("begin")) == 1


def test_FI_42_an_adopted_job_is_watched_to_its_end(bench: Bench):
    go = bench.workdir / "go"
    _orphan(bench, "--steps", 3, "--until", go, steps=3)
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
    pid = _orphan(bench, "--steps", 3, "--until", "/never", steps=10)
    adopt_job(bench.host, PROJECT, bench.run)
    os.kill(pid, signal.SIGKILL)
    result = until(lambda: bench.survey().result, "the end")
    assert (result.exit, result.signal) == (137, 9)


def test_an_adopted_job_without_an_exit_status_is_judged_by_its_files(bench: Bench):
    pid = _orphan(bench, "--steps", 3, "--until", "/never", steps=10)
    _kill_witness(bench)
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
    pid = _orphan(bench, "--until", go, *words)
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
    pid = _orphan(bench, "--steps", 3, "--until", "/never", steps=steps)
    until(lambda: (bench.survey().progress or Progress(0)).step == 3, "the last step")
    if adapter:
        Path(bench.layout.adapter).mkdir()
    _kill_witness(bench)
    os.kill(pid, signal.SIGKILL)
    until(lambda: bench.survey().state is JobState.LOST, "the end that nobody saw")
    adopt_job(bench.host, PROJECT, bench.run)
    assert bench.survey().state is state


def test_an_adapter_of_an_earlier_job_does_not_show_success_of_a_later_one(bench: Bench):
    Path(bench.layout.adapter).mkdir(parents=True)
    os.utime(bench.layout.adapter, (1.0, 1.0))
    pid = _orphan(bench, "--steps", 3, "--until", "/never", steps=3)
    until(lambda: (bench.survey().progress or Progress(0)).step == 3, "the last step")
    _kill_witness(bench)
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
    pid = _orphan(bench, "--print", "hello", "--until", go)
    if lost:
        _kill_witness(bench)
        os.kill(pid, signal.SIGKILL)
    else:
        go.touch()
    assert b"".join(follow_log(bench.host, PROJECT, bench.run)) == b"hello\n"
    assert list(follow_events(bench.host, PROJECT, bench.run, tmp_path)) == []
    assert bench.survey().state is (JobState.LOST if lost else JobState.SUCCEEDED)


def test_a_job_outlives_its_supervisor_and_the_agent_that_started_it(bench: Bench):
    go = bench.workdir / "go"
    pid = _orphan(bench, "--until", go)
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
    _orphan(bench, "--until", go)
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
        _kill_witness(bench)
        os.kill(launcher, signal.SIGKILL)
        until(lambda: not alive(launcher), "the launcher's end")
    adopt_job(bench.host, PROJECT, bench.run)
    assert all(alive(rank) for rank in ranks)
    Path(bench.layout.adapter).mkdir()
    go.touch()
    until(lambda: bench.survey().state is JobState.SUCCEEDED, "the end", 60.0)
    assert not any(alive(rank) for rank in ranks)


def test_FI_42_a_stop_ends_orphans_too(bench: Bench):
    pid = _orphan(bench, "--workers", 2, "--stubborn", "--until", "/never", grace_s=0.5)
    until(lambda: len(bench.events("worker")) == 2, "the workers")
    answer = stop_job(bench.host, PROJECT, bench.run)
    assert answer.result.stopped
    assert not any(alive(row["worker"]) for row in bench.events("worker"))
    assert not alive(pid)


def test_FI_42_trainer_and_supervisor_both_gone_is_lost(bench: Bench):
    pid = _orphan(bench, "--until", "/never")
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), "the trainer's end")
    run = bench.survey()
    assert (run.state, run.orphans) == (JobState.LOST, ())
    bench.start("--until", "/never", number=2)
    states = [job.state for job in list_jobs(bench.host, PROJECT, bench.run)]
    assert states == [JobState.LOST, JobState.RUNNING], "a job's processes must not be taken for another's of its run"


def test_a_job_killed_with_its_supervisor_is_resumed_from_its_newest_whole_checkpoint(bench: Bench):
    pid = _orphan(bench, "--steps", 4, "--save-every", 2, "--until", "/never", steps=8)
    until(lambda: len(bench.events("saved")) == 2, "both checkpoints")
    os.kill(pid, signal.SIGKILL)
    until(lambda: bench.survey().state is JobState.LOST, "the end that nobody saw")
    assert adopt_job(bench.host, PROJECT, bench.run).result.signal == 9
    assert prepare_resume(bench.host, PROJECT, bench.run).checkpoint.step == 4


def test_a_supervisor_killed_before_the_first_step_leaves_a_job_that_trains(bench: Bench):
    held = bench.workdir / "held"
    bench.workdir.mkdir()
    os.mkfifo(held)
    script = f"open({str(held)!r}).read(); print('trained')"
    spec = replace(bench.spec(), argv=(bench.python, "-c", script))
    started = start_job(bench.host, StartRequest(PROJECT, spec, "tiny")).started
    os.kill(started.pid, signal.SIGKILL)
    until(lambda: not alive(started.pid), "the supervisor's end")
    adopt_job(bench.host, PROJECT, bench.run)
    held.write_bytes(b"go on")
    until(lambda: bench.survey().state is JobState.SUCCEEDED, "the end")
    assert bench.output() == "trained\n"


def _edit_started(bench: Bench, **changes: object) -> None:
    path = Path(bench.job().supervisor)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_space_reserved_by_a_lost_job_is_released_when_another_starts(bench: Bench):
    pid = _orphan(bench, "--until", "/never")
    os.kill(pid, signal.SIGKILL)
    until(lambda: bench.survey().state is JobState.LOST, "the job is lost")
    assert Path(bench.job().root, "reserve").exists()
    bench.start("--exit", 0, number=2)
    until(lambda: bench.survey().state is JobState.SUCCEEDED, "the second job's end")
    assert list(Path(bench.layout.root).glob("jobs/*/reserve")) == []


def test_FI_48_after_a_reboot_the_job_is_lost_even_if_its_pid_is_reused(bench: Bench):
    bench.start()
    until(lambda: bench.survey().result, "the end")
    Path(bench.job().result).unlink()
    me = read_process(os.getpid())
    _edit_started(bench, pid=me.pid, start_ticks=me.ticks, child_pid=me.pid, child_start_ticks=me.ticks)
    assert bench.survey().state is JobState.RUNNING
    _edit_started(bench, boot_id="00000000-0000-0000-0000-000000000000")
    assert bench.survey().state is JobState.LOST


def test_FI_49_a_reused_pid_is_neither_trusted_nor_signalled(bench: Bench):
    bench.start()
    until(lambda: bench.survey().result, "the end")
    Path(bench.job().result).unlink()
    bystander = os.fork()
    if bystander == 0:
        signal.pause()
        os._exit(0)
    try:
        ticks = read_process(bystander).ticks
        _edit_started(bench, pid=bystander, start_ticks=ticks - 1, child_pid=bystander, child_start_ticks=ticks - 1)
        assert bench.survey().state is JobState.LOST
        stop_job(bench.host, PROJECT, bench.run, grace_s=0)
        assert alive(bystander)
    finally:
        os.kill(bystander, signal.SIGKILL)
        os.waitpid(bystander, 0)


def test_FI_49_a_signal_reaches_only_the_intended_process():
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        process = read_process(child)
        other = type(process)(process.pid, process.parent, process.ticks + 1)
        assert is_alive(child, process.ticks, boot_id())
        assert not is_alive(child, process.ticks + 1, boot_id())
        assert not send_signal(other, signal.SIGKILL)
        assert alive(child)
        assert send_signal(process, signal.SIGKILL)
    finally:
        os.waitpid(child, 0)
    assert not send_signal(process, signal.SIGKILL)
