"""A stop sends SIGTERM, waits and kills; a preemption keeps its checkpoint; a crash is neither."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from remote.link.local import local_host
from remote.operations.jobs import prepare_resume, start_job, stop_job
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobState
from tests.lab.processes import alive
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, TRAINER, Bench

TORCHRUN = ("-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port={free_port}")


def _begin(bench: Bench) -> int:
    return until(lambda: bench.events("begin"), "the trainer")[0]["pid"]


def _workers(bench: Bench, count: int) -> list[int]:
    until(lambda: len(bench.events("worker")) == count, "the workers")
    return [row["worker"] for row in bench.events("worker")]


def test_a_stop_leaves_no_worker_alive_even_in_another_session(bench: Bench):
    bench.start("--workers", 2, "--stubborn", "--until", "/never", grace_s=0.5)
    workers = _workers(bench, 2)
    assert {os.getsid(pid) for pid in workers} == set(workers)
    answer = stop_job(bench.host, PROJECT, bench.run)
    assert answer.state is JobState.STOPPED
    assert answer.result.stopped
    assert not answer.result.preempted
    assert answer.left == ()
    assert not any(alive(pid) for pid in workers)


def test_a_stop_gives_time_to_save_and_the_checkpoint_is_published(bench: Bench):
    bench.start("--steps", 10000, "--on-term", "save", "--fork-worker", grace_s=20)
    until(lambda: bench.survey().progress, "a step")
    answer = stop_job(bench.host, PROJECT, bench.run)
    leaving = bench.events("leaving")
    assert answer.result.stopped
    assert answer.result.exit == 143
    assert len(bench.events("saved")) == 1
    assert leaving[0]["helper_lives"], "a data loader's worker was signalled before its parent could save"
    run = bench.survey()
    assert [checkpoint.problem for checkpoint in run.checkpoints] == [""]


def test_a_service_that_a_trainer_saves_with_outlives_the_save(bench: Bench):
    bench.start("--steps", 100000, "--on-term", "save", "--service", grace_s=20)
    until(lambda: bench.events("service") and bench.survey().progress, "a step")
    answer = stop_job(bench.host, PROJECT, bench.run)
    assert answer.result.stopped
    names = [row["event"] for row in bench.trainer_rows()]
    assert names.index("saved") < names.index("service-told")
    assert not alive(bench.events("service")[0]["pid"])


def test_workers_of_a_launcher_that_does_not_forward_a_signal_get_it_later(bench: Bench):
    script = 'trap : TERM; "$0" "$@" & wait; wait'
    spec = bench.spec("--steps", 100000, "--on-term", "save", grace_s=4)
    spec = replace(spec, argv=("sh", "-c", script, *spec.argv))
    start_job(bench.host, StartRequest(PROJECT, spec, "tiny"))
    until(lambda: bench.survey().progress, "a step")
    answer = stop_job(bench.host, PROJECT, bench.run)
    assert answer.result.stopped
    assert len(bench.events("saved")) == 1


def test_a_stop_with_no_grace_kills_at_once(bench: Bench):
    bench.start("--on-term", "ignore", "--until", "/never", grace_s=600)
    pid = _begin(bench)
    answer = stop_job(bench.host, PROJECT, bench.run, grace_s=0)
    assert answer.result.stopped
    assert answer.result.signal == signal.SIGKILL
    assert not alive(pid)


def test_an_impatient_second_stop_shortens_the_first_ones_grace(bench: Bench):
    bench.start("--on-term", "ignore", "--until", "/never", grace_s=600)
    pid = _begin(bench)
    twin = local_host(str(bench.workdir))
    first = threading.Thread(target=stop_job, args=(twin, PROJECT, bench.run))
    first.start()
    until(lambda: bench.events("term"), "the first stop")
    answer = stop_job(bench.host, PROJECT, bench.run, grace_s=0)
    first.join()
    twin.close()
    assert answer.result.stopped
    assert not alive(pid)


def test_a_frozen_trainer_is_stopped_too(bench: Bench):
    bench.start("--on-term", "save", "--until", "/never")
    pid = _begin(bench)
    os.kill(pid, signal.SIGSTOP)
    answer = stop_job(bench.host, PROJECT, bench.run)
    assert answer.result.stopped
    assert len(bench.events("saved")) == 1


def test_stopping_a_run_that_is_not_running_changes_nothing(bench: Bench):
    bench.start()
    until(lambda: bench.survey().result, "the end")
    before = Path(bench.job().result).read_bytes()
    answer = stop_job(bench.host, PROJECT, bench.run)
    assert answer.state is JobState.SUCCEEDED
    assert Path(bench.job().result).read_bytes() == before


@pytest.mark.parametrize("ending", ["save", "save-zero", "save-42"])
@pytest.mark.parametrize("target", ["supervisor", "trainer"])
def test_FI_45_SIGTERM_from_outside_is_a_preemption_with_one_verified_checkpoint(
    bench: Bench, target: str, ending: str
):
    if (target, ending) == ("trainer", "save-zero"):
        # Only the trainer got the signal, and it exited with 0, which looks exactly like a short run.
        ending = "save"
    bench.start("--steps", 10000, "--on-term", ending, steps=10000)
    until(lambda: bench.survey().progress, "a step")
    began = time.monotonic()
    started = bench.survey().started
    os.kill(started.pid if target == "supervisor" else _begin(bench), signal.SIGTERM)
    result = until(lambda: bench.survey().result, "the end")
    assert time.monotonic() - began < 25
    assert result.preempted
    assert not result.stopped
    run = bench.survey()
    assert run.state is JobState.FAILED
    assert [checkpoint.problem for checkpoint in run.checkpoints] == [""]
    assert len(bench.events("saved")) == 1
    assert run.checkpoints[0].name in result.reason


def test_FI_45_SIGTERM_before_the_first_checkpoint_is_reported_as_such(bench: Bench):
    bench.start("--until", "/never")
    _begin(bench)
    os.kill(bench.survey().started.pid, signal.SIGTERM)
    result = until(lambda: bench.survey().result, "the end")
    assert not result.preempted
    assert "before a checkpoint was complete" in result.reason


def test_FI_46_SIGKILL_in_the_middle_of_a_save_leaves_the_previous_checkpoint_as_the_newest(bench: Bench):
    bench.start("--steps", 10000, "--save-every", 5, "--on-term", "save", "--stuck-save", 15, grace_s=0.2)
    until(lambda: len(bench.events("saved")) == 2, "two checkpoints")
    until(lambda: Path(bench.layout.checkpoints, "checkpoint-15").is_dir(), "the third save")
    os.kill(_begin(bench), signal.SIGKILL)
    result = until(lambda: bench.survey().result, "the end")
    assert result.signal == signal.SIGKILL
    problems = {checkpoint.step: checkpoint.problem for checkpoint in bench.survey().checkpoints}
    assert problems[5] == problems[10] == ""
    assert "interrupted" in problems[15]


@pytest.mark.parametrize("moment", ["told", "saving", "saved"])
@pytest.mark.parametrize("victims", ["trainer", "trainer and supervisor"])
def test_FI_46_SIGTERM_then_SIGKILL_at_any_moment_leaves_a_verified_checkpoint(bench: Bench, moment: str, victims: str):
    # The kill may come late: the save of the moments before its end is never completed by itself.
    stuck = -1 if moment == "saved" else 11
    bench.start("--steps", 10, "--save-every", 10, "--until", "/never", "--on-term", "save-11", "--stuck-save", stuck)
    until(lambda: bench.events("saved"), "the first checkpoint")
    supervisor, trainer = bench.survey().started.pid, _begin(bench)
    os.kill(supervisor, signal.SIGTERM)
    reached = {
        "told": lambda: bench.events("term"),
        "saving": lambda: Path(bench.layout.checkpoints, "checkpoint-11").is_dir(),
        "saved": lambda: len(bench.events("saved")) == 2,
    }
    until(reached[moment], moment)
    for pid in (supervisor, trainer) if "supervisor" in victims else (trainer,):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    run = until(lambda: bench.survey().state is not JobState.RUNNING and bench.survey(), "the end")
    assert run.state in (JobState.LOST, JobState.FAILED)
    point = prepare_resume(bench.host, PROJECT, bench.run)
    assert point.checkpoint.step == (11 if moment == "saved" else 10)
    assert all("broken-checkpoint-11" in name for name in point.broken)


def test_FI_47_a_second_SIGTERM_starts_no_second_save(bench: Bench):
    bench.start("--steps", 10000, "--on-term", "save")
    until(lambda: bench.survey().progress, "a step")
    supervisor = bench.survey().started.pid
    os.kill(supervisor, signal.SIGTERM)
    until(lambda: bench.events("term"), "the first one")
    os.kill(supervisor, signal.SIGTERM)
    result = until(lambda: bench.survey().result, "the end")
    assert result.preempted
    assert len(bench.events("term")) == 1
    assert len(bench.events("saved")) == 1


def test_a_SIGTERM_while_the_last_step_ends_is_still_a_success(bench: Bench):
    bench.start("--steps", 3, "--on-term", "ignore", "--until", bench.workdir / "go", steps=3)
    until(lambda: bench.survey().progress and bench.survey().progress.step == 3, "all steps")
    os.kill(bench.survey().started.pid, signal.SIGTERM)
    until(lambda: bench.events("term"), "the signal")
    (bench.workdir / "go").touch()
    result = until(lambda: bench.survey().result, "the end")
    assert (result.exit, result.preempted, result.stopped) == (0, False, False)


@pytest.mark.parametrize("target", ["supervisor", "torchrun"])
def test_FI_45_a_preempted_torchrun_saves_once_and_leaves_no_rank(bench: Bench, target: str):
    argv = (bench.python, *TORCHRUN, str(TRAINER))
    words = ("--steps", "100000", "--on-term", "save", "--only-rank", "0")
    spec = replace(bench.spec(processes=1, environment={"OMP_NUM_THREADS": "1"}), argv=(*argv, *words))
    start_job(bench.host, StartRequest(PROJECT, spec, "tiny"))
    until(lambda: len(bench.events("begin")) == 2 and bench.survey().progress, "both ranks")
    started = bench.survey().started
    os.kill(started.pid if target == "supervisor" else started.child_pid, signal.SIGTERM)
    result = until(lambda: bench.survey().result, "the end")
    assert result.preempted, result
    assert [checkpoint.problem for checkpoint in bench.survey().checkpoints] == [""]
    assert len(bench.events("saved")) == 1
    assert not any(alive(row["pid"]) for row in bench.events("begin"))


def test_FI_43_a_killed_rank_ends_the_group_and_no_rank_is_left(bench: Bench):
    argv = (bench.python, *TORCHRUN, str(TRAINER))
    spec = replace(bench.spec(environment={"OMP_NUM_THREADS": "1"}), argv=(*argv, "--until", "/never"))
    start_job(bench.host, StartRequest(PROJECT, spec, "tiny"))
    until(lambda: len(bench.events("begin")) == 2, "both ranks")
    ranks = [row["pid"] for row in bench.events("begin")]
    os.kill(ranks[0], signal.SIGKILL)
    result = until(lambda: bench.survey().result, "the end")
    assert result.exit == 1
    assert not result.preempted
    assert not any(alive(pid) for pid in ranks)
