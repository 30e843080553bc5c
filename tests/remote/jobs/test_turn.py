"""Queued jobs: each starts after the jobs on its cards that were started before it, without the laptop."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from remote.operations.jobs import follow_job, stop_job
from remote.payload.jobs.turn import cards_of
from remote.protocol.jobs import JobSpec, JobState
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench, ours

QUEUE = {"queue": True}


def another(bench: Bench, run: str) -> Bench:
    return replace(bench, run=run)


def waiting_pid(bench: Bench) -> int:
    return int(json.loads(Path(bench.job().queued).read_text())["pid"])


def test_queued_jobs_run_one_after_another_without_the_laptop_and_a_failure_does_not_stop_the_next(
    bench: Bench, tmp_path: Path
):
    first, second, third = bench, another(bench, "tiny-22222222"), another(bench, "tiny-33333333")
    first.start("--steps", 2, "--until", tmp_path / "enough", "--exit", 3, request=QUEUE)
    assert second.start("--steps", 3, request=QUEUE).state is JobState.RUNNING
    third.start("--steps", 4, request={**QUEUE, "secrets": {"HF_TOKEN": "hf_canary"}}, secrets=("HF_TOKEN",))
    assert second.survey().waits == "waits for tiny-01234567 to end"
    assert second.start("--steps", 3, request=QUEUE).fresh is False
    followed = follow_job(bench.host, PROJECT, second.run)
    assert next(followed).waits == "waits for tiny-01234567 to end"
    assert second.events("begin") == []
    (tmp_path / "enough").touch()
    assert list(followed)[-1].result.exit == 0
    until(lambda: third.survey().result, "the end of the third job")
    assert (first.survey().state, first.survey().result.exit) == (JobState.FAILED, 3)
    ends = [one.survey().result.ended_unix for one in (first, second, third)]
    begins = [one.survey().started.started_unix for one in (first, second, third)]
    assert begins[1] > ends[0]
    assert begins[2] > ends[1]
    assert list(Path(bench.workdir).rglob("launch-*")) == []


def test_a_job_on_another_card_does_not_wait(bench: Bench, tmp_path: Path):
    bench.start("--until", tmp_path / "enough", environment={"CUDA_VISIBLE_DEVICES": "0"}, request=QUEUE)
    other = another(bench, "tiny-22222222")
    other.start("--steps", 1, environment={"CUDA_VISIBLE_DEVICES": "1"}, request=QUEUE)
    until(lambda: other.survey().result, "the end")
    assert bench.survey().state is JobState.RUNNING


@pytest.mark.parametrize(
    ("environment", "cards"),
    [({}, None), ({"CUDA_VISIBLE_DEVICES": "0,2"}, {"0", "2"}), ({"CUDA_VISIBLE_DEVICES": "MIG-1"}, {"MIG-1"})],
)
def test_the_cards_of_a_job(environment: dict[str, str], cards: set[str] | None):
    assert cards_of(JobSpec("a-01234567", 1, "f" * 64, ("true",), environment=environment)) == cards


def test_a_waiting_job_can_be_stopped_and_is_started_by_the_next_start(bench: Bench, tmp_path: Path):
    bench.start("--until", tmp_path / "enough", request=QUEUE)
    second = another(bench, "tiny-22222222")
    second.start("--steps", 1, request=QUEUE)
    answer = stop_job(bench.host, PROJECT, second.run)
    assert (answer.state, answer.result.reason) == (JobState.STOPPED, "stopped before it began")
    assert second.events("begin") == []
    second.start("--steps", 1, number=2, request=QUEUE)
    assert second.survey().state is JobState.RUNNING
    (tmp_path / "enough").touch()
    assert until(lambda: second.survey().result, "the end").exit == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_job_whose_waiting_supervisor_died_is_queued_again_by_the_same_start(
    bench: Bench, tmp_path: Path, number: signal.Signals
):
    bench.start("--until", tmp_path / "enough", request=QUEUE)
    second, third = another(bench, "tiny-22222222"), another(bench, "tiny-33333333")
    second.start("--steps", 1, request=QUEUE)
    third.start("--steps", 1, request=QUEUE)
    os.kill(waiting_pid(second), number)
    until(lambda: second.survey().state is JobState.ABSENT, "the end of the supervisor")
    assert second.start("--steps", 1, request=QUEUE).fresh
    assert second.survey().waits == "waits for tiny-01234567 to end"
    (tmp_path / "enough").touch()
    until(lambda: second.survey().result and third.survey().result, "both ends")
    assert (len(second.events("begin")), len(third.events("begin"))) == (1, 1)
    until(lambda: not ours(bench.workdir), "no process")


def test_a_job_of_another_machine_with_the_same_workdir_is_not_waited_for(bench: Bench, tmp_path: Path):
    bench.start("--until", tmp_path / "enough", request=QUEUE)
    supervisor = Path(bench.job().supervisor)
    supervisor.write_text(json.dumps({**json.loads(supervisor.read_text()), "boot_id": "another machine"}))
    second = another(bench, "tiny-22222222")
    second.start("--steps", 1, request=QUEUE)
    assert until(lambda: second.survey().result, "the end").exit == 0
    assert bench.survey().state is JobState.RUNNING


def test_a_queued_job_has_a_later_turn_than_those_before_it_although_the_clock_went_back(bench: Bench, tmp_path: Path):
    bench.start("--until", tmp_path / "enough", request=QUEUE)
    first, second = Path(bench.job().spec), another(bench, "tiny-22222222")
    ahead = 2 * json.loads(first.read_text())["turn"]
    first.write_text(json.dumps({**json.loads(first.read_text()), "turn": ahead}))
    second.start("--steps", 1, request=QUEUE)
    assert json.loads(Path(second.job().spec).read_text())["turn"] > ahead
