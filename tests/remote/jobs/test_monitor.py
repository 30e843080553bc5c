"""Monitoring a job: a stalled step counter, endless output, checkpoints that the script saved itself."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from remote.payload.files.records import read_record
from remote.payload.jobs.monitor import JobMonitor, Limits, StepClock, keep_head_and_tail
from remote.protocol.jobs import JobState, Progress
from tests.lab.processes import alive
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import Bench


def test_FI_52_a_step_is_overdue_after_three_times_the_median_but_not_before_the_limit():
    clock = StepClock(120.0)
    assert not clock.stalled(1e6), "loading a model may take as long as it takes"
    for step in range(10):
        clock.note(step, step * 100.0)
    assert not clock.stalled(900.0 + 299.0)
    assert clock.stalled(900.0 + 301.0)
    clock.note(10, 1300.0)
    assert not clock.stalled(1301.0)


def test_FI_52_short_steps_are_not_overdue_before_the_limit():
    clock = StepClock(120.0)
    for step in range(10):
        clock.note(step, step * 0.1)
    assert not clock.stalled(100.0)
    assert clock.stalled(130.0)


def test_FI_52_a_frozen_trainer_is_reported_as_stalled_and_not_killed(bench: Bench):
    bench.start("--steps", 100000, "--step-s", 0.02, stall_after_s=0.5)
    pid = until(lambda: bench.events("begin"), "the trainer")[0]["pid"]
    until(lambda: bench.survey().progress, "a step")
    os.kill(pid, signal.SIGSTOP)
    run = until(lambda: bench.survey().stalled and bench.survey(), "the stall")
    assert run.state is JobState.RUNNING
    assert alive(pid)
    os.kill(pid, signal.SIGCONT)
    until(lambda: not bench.survey().stalled, "the end of the stall")


def test_FI_53_head_and_tail_of_endless_output_stay_and_disk_is_freed(tmp_path: Path):
    path = tmp_path / "output.log"
    limits = Limits(output=2**20, head=2**16, tail=2**17)
    lines = b"".join(b"%07d\n" % number for number in range(400_000))
    path.write_bytes(lines)
    cut = keep_head_and_tail(str(path), 0, limits)
    data = path.read_bytes()
    assert cut > 2**20
    assert len(data) == len(lines), "offsets of a reader must stay what they are"
    assert data[: limits.head] == lines[: limits.head]
    assert data[-limits.tail :] == lines[-limits.tail :]
    assert b"removed" in data
    assert path.stat().st_blocks * 512 < limits.head + limits.tail + 2**16
    assert keep_head_and_tail(str(path), cut, limits) == cut


def test_FI_53_output_that_is_short_enough_is_left_alone(tmp_path: Path):
    path = tmp_path / "output.log"
    path.write_bytes(b"a line\n" * 1000)
    assert keep_head_and_tail(str(path), 0, Limits(output=2**20)) == 0
    assert path.read_bytes() == b"a line\n" * 1000


def test_FI_53_the_output_of_each_rank_is_cut_too(bench: Bench):
    job = bench.job()
    path = Path(job.ranks) / "none_1" / "attempt_0" / "1" / "stdout.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"a line\n" * 300_000)
    watch = JobMonitor(bench.layout, job, bench.spec(), Limits(output=2**20, head=2**16, tail=2**17))
    watch.check(0.0)
    assert path.stat().st_blocks * 512 < 2**19
    assert path.stat().st_size == 2_100_000


def test_FI_53_a_trainer_with_endless_output_keeps_training(bench: Bench):
    go = bench.workdir / "go"
    bench.start("--shout", 300, "--until", go)
    until(lambda: any("were removed" in word for word in bench.survey().warnings), "the cut")
    status = os.stat(bench.job().output)
    assert status.st_size >= 300 * 2**20
    assert status.st_blocks * 512 < 256 * 2**20
    go.touch()
    assert until(lambda: bench.survey().result, "the end").exit == 0


def test_a_low_disk_is_written_to_the_flags(tmp_path: Path, bench: Bench):
    job = bench.job()
    Path(job.root).mkdir(parents=True)
    watch = JobMonitor(bench.layout, job, bench.spec(), Limits(low_disk=2**60))
    watch.check(0.0)
    assert "MiB are free" in (Path(job.root) / "flags.json").read_text()


@pytest.mark.parametrize("place", ["checkpoints", "code/outputs/phi4"])
def test_a_checkpoint_that_a_script_saved_itself_is_published_wherever_it_lies(bench: Bench, place: str):
    bench.start("--steps", 4, "--save-every", 2, "--output", f"{bench.layout.root}/{place}")
    until(lambda: bench.survey().result, "the end")
    rows = bench.survey().checkpoints
    assert [(row.name, row.step, row.problem) for row in rows] == [
        (f"{place}/checkpoint-4", 4, ""),
        (f"{place}/checkpoint-2", 2, ""),
    ]
    assert rows[0].bytes > 1024


def test_a_script_s_checkpoint_is_published_during_training_once_its_files_stop_changing(bench: Bench):
    bench.start("--steps", 2, "--save-every", 2, "--until", "/never")
    until(lambda: bench.survey().checkpoints and not bench.survey().checkpoints[0].problem, "the manifest")
    assert bench.survey().state is JobState.RUNNING


def test_a_checkpoint_without_the_loss_scale_that_others_have_is_not_published(bench: Bench):
    bench.start("--steps", 2, "--save-every", 2)
    until(lambda: bench.survey().result, "the end")
    bench.start("--steps", 4, "--save-every", 4, "--no-scaler", number=2)
    until(lambda: bench.survey().job == 2 and bench.survey().result, "the second end")
    problems = {row.step: row.problem for row in bench.survey().checkpoints}
    assert problems[2] == ""
    assert "interrupted" in problems[4]
    assert any("scaler.pt is missing" in words for words in bench.survey().warnings)


@pytest.mark.parametrize("name", ["progress.json", "jobs/1/supervisor.json"])
def test_a_pipe_in_place_of_a_record_does_not_block_the_commands(bench: Bench, name: str):
    bench.start("--until", "/never")
    until(lambda: bench.events("begin"), "the trainer")
    record = Path(bench.layout.root) / name
    record.unlink(missing_ok=True)
    os.mkfifo(record)
    assert bench.survey().run == bench.run
    assert read_record(str(record), Progress) is None
