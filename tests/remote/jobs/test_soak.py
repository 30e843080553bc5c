"""Seeded random kills: never two trainers, never a lost checkpoint, never a restart at step 0."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time

import pytest

from remote.errors import HalfstepError
from remote.link.local import local_host
from remote.operations.jobs import adopt_job, prepare_resume, start_job, stop_job
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobState, RunSurvey
from tests.lab.processes import alive, command_of
from tests.lab.wait import PATIENCE_S, until
from tests.remote.jobs.jobs_bench import PROJECT, Bench, ours

SEEDS = 200 if os.environ.get("HALFSTEP_FULL") else 4
STEPS = 40
VICTIMS = ("agent", "supervisor", "trainer", "both", "everything", "stop", "preempt", "nobody")


def trainers(bench: Bench) -> list[int]:
    """Return the living training processes of the run."""
    commands = {pid: command_of(pid) for pid in ours(bench.workdir)}
    return [pid for pid, command in commands.items() if b"fake_trainer.py" in command and b"supervise" not in command]


def look(bench: Bench) -> RunSurvey | None:
    return bench.look().run(bench.run)


def carry_on(bench: Bench) -> None:
    """Do what `pipeline run` does: attach, adopt, resume or start; a refusal is left to the next try."""
    run = look(bench)
    if run is not None and run.state is JobState.RUNNING:
        if run.orphans:
            adopt_job(bench.host, PROJECT, bench.run)
        return
    number = 1 if run is None else max(run.job, 1) if run.state is JobState.ABSENT else run.job + 1
    resume = prepare_resume(bench.host, PROJECT, bench.run).path if run is not None and run.checkpoints else ""
    words = ("--steps", STEPS, "--save-every", 4, "--step-s", 0.005, "--on-term", "save")
    spec = bench.spec(*words, number=number, steps=STEPS, resume_from=resume, grace_s=5.0)
    start_job(bench.host, StartRequest(PROJECT, spec, "tiny"))


def strike(bench: Bench, victim: str, chance: random.Random) -> None:
    started = (run := look(bench)) and run.started
    pids = {
        "agent": [int(bench.host.run(["sh", "-c", "echo $PPID"]).stdout)],
        "supervisor": [started.pid] if started else [],
        "trainer": trainers(bench),
    }
    pids["both"] = pids["supervisor"] + pids["trainer"]
    pids["everything"] = pids["both"] + pids["agent"]
    if victim == "stop":
        stop_job(bench.host, PROJECT, bench.run, grace_s=chance.choice([0.0, 5.0]))
    elif victim == "preempt" and started and alive(started.pid):
        os.kill(started.pid, signal.SIGTERM)
    for pid in pids.get(victim, []):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_any_kill_the_next_run_continues(bench: Bench, seed: int):
    chance = random.Random(seed)
    newest = 0
    for _ in range(chance.randint(2, 5)):
        with contextlib.suppress(HalfstepError):
            carry_on(bench)
        target = chance.randint(0, STEPS)
        until(lambda target=target: _reached(bench, target), "a step, or an end")
        with contextlib.suppress(HalfstepError):
            strike(bench, chance.choice(VICTIMS), chance)
        if chance.random() < 0.5:
            bench.host.close()
            bench.host = local_host(str(bench.workdir))
        assert len(trainers(bench)) <= 1
        verified = [row.step for row in _survey(bench).checkpoints if not row.problem]
        assert max(verified, default=0) >= newest, "a verified checkpoint was lost"
        newest = max(verified, default=0)
    deadline = time.monotonic() + PATIENCE_S
    while _survey(bench).state is not JobState.SUCCEEDED:
        assert time.monotonic() < deadline, _survey(bench)
        with contextlib.suppress(HalfstepError):
            carry_on(bench)
        until(lambda: _survey(bench).state is not JobState.RUNNING, "an end")
    begun = [row["resume"] for row in bench.events("begin")]
    first_saved = next((number for number, row in enumerate(bench.trainer_rows()) if row["event"] == "saved"), 10**9)
    for number, row in enumerate(bench.trainer_rows()):
        if row["event"] == "begin" and number > first_saved:
            assert row["resume"], f"began anew although something was saved: {begun}"
    assert len(trainers(bench)) == 0


def _survey(bench: Bench) -> RunSurvey:
    while True:
        with contextlib.suppress(HalfstepError):
            found = look(bench)
            if found is not None:
                return found
            carry_on(bench)


def _reached(bench: Bench, step: int) -> bool:
    run = _survey(bench)
    return run.state is not JobState.RUNNING or (run.progress is not None and run.progress.step >= step)
