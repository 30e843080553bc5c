"""The gauges of a job: samples of nvidia-smi, whatever it does, the history of the loss, and event files of both."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from remote.operations.jobs import follow_job, list_jobs, stop_job
from remote.payload.jobs.gauge_recorder import HISTORY, GaugeRecorder, GpuCurves, LossHistory, mean_scalars
from remote.payload.jobs.gpu_sampler import DEADLINE_S, SAMPLE_EVERY_S, GpuSampler, parse_gpu_use
from remote.payload.output.event_writer import EventWriter
from remote.protocol.events import read_scalars
from remote.protocol.gauges import Gauges, GpuUse
from remote.protocol.jobs import JobState, Progress
from remote.protocol.records import complete_prefix
from remote.protocol.values import dumps
from tests.lab.cards import A100, TITAN_RTX, write_nvidia_smi
from tests.lab.processes import alive
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench

MIB = 2**20
ROWS = "0, GPU-a, 97, 18600, 24576, 71\n1, GPU-b, 3, 10, 24576, 40\n"
FIRST = GpuUse(0, 97.0, 18600 * MIB, 24576 * MIB, 71.0)
SECOND = GpuUse(1, 3.0, 10 * MIB, 24576 * MIB, 40.0)


@pytest.mark.parametrize(
    ("text", "visible", "found"),
    [
        (ROWS, "", (FIRST, SECOND)),
        (ROWS, "1", (SECOND,)),
        (ROWS, "GPU-a", (FIRST,)),
        (ROWS, "MIG-7", (FIRST, SECOND)),
        ("0, GPU-a, [N/A], 18600, 24576, [Unknown Error]\n", "", (GpuUse(0, None, 18600 * MIB, 24576 * MIB, None),)),
        ("0, GPU-a, [Not Supported], [N/A], nan, -1\n", "", (GpuUse(0),)),
        ("Unable to determine the device handle for GPU0000:01:00.0: GPU is lost.\n", "", ()),
        ("", "", ()),
    ],
)
def test_the_answer_of_nvidia_smi_is_read_as_far_as_it_has_values(
    text: str, visible: str, found: tuple[GpuUse, ...]
) -> None:
    assert parse_gpu_use(text, visible) == found


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install a stand-in for nvidia-smi in front of PATH."""

    def installed(**how: object) -> None:
        write_nvidia_smi(tmp_path / "bin", **how)  # type: ignore[arg-type]
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    return installed


def ended(sampler: GpuSampler) -> None:
    until(lambda: not alive(sampler.pid or 0), "the end of nvidia-smi")


def test_a_sample_is_read_once_its_query_has_ended_and_the_next_one_waits(install: Callable[..., None]) -> None:
    install(cards=[TITAN_RTX, A100])
    sampler = GpuSampler("1")
    assert sampler.sample(100.0) == ()
    ended(sampler)
    assert sampler.sample(100.1) == (GpuUse(1, 0.0, 3 * MIB, 81920 * MIB, 35.0),)
    assert (sampler.sample(100.2), sampler.pid) == ((), None)
    sampler.sample(100.0 + SAMPLE_EVERY_S)
    assert sampler.pid is not None
    sampler.close()


def test_a_slow_nvidia_smi_is_queried_less_often(install: Callable[..., None]) -> None:
    install()
    sampler = GpuSampler()
    sampler.sample(100.0)
    ended(sampler)
    assert len(sampler.sample(103.0)) == 1, "the answer came within three seconds"
    sampler.sample(129.0)
    assert sampler.pid is None
    sampler.sample(130.0)
    assert sampler.pid is not None
    sampler.close()


def test_a_hanging_nvidia_smi_is_killed_and_no_other_started_before_it_is_gone(
    install: Callable[..., None],
) -> None:
    install(hangs=True)
    sampler = GpuSampler()
    sampler.sample(100.0)
    pid = sampler.pid
    assert pid is not None
    assert sampler.sample(100.0 + DEADLINE_S) == () and alive(pid)
    sampler.sample(100.1 + DEADLINE_S)
    ended(sampler)
    assert sampler.sample(100.2 + DEADLINE_S) == ()
    assert sampler.pid is None


def test_without_nvidia_smi_nothing_is_tried_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    sampler = GpuSampler()
    assert sampler.sample(100.0) == ()
    write_nvidia_smi(tmp_path)
    assert (sampler.sample(1000.0), sampler.pid) == ((), None)


def test_scalars_are_written_as_records_that_the_reader_reads(tmp_path: Path) -> None:
    writer = EventWriter(str(tmp_path / "gpu"))
    writer.add(1, {"gpu0/utilization": 97.0}, 1000.5)
    writer.add(300, {"gpu0/utilization": 0.0, "gpu0/memory": 2.0**34}, 1001.0)
    [path] = (tmp_path / "gpu").iterdir()
    data = path.read_bytes()
    assert complete_prefix(data).size_bytes == len(data)
    assert [(one.tag, one.step, one.value, one.wall_time) for one in read_scalars(data)] == [
        ("gpu0/utilization", 1, 97.0, 1000.5),
        ("gpu0/utilization", 300, 0.0, 1001.0),
        ("gpu0/memory", 300, 2.0**34, 1001.0),
    ]


def test_samples_of_one_step_are_averaged(tmp_path: Path) -> None:
    curves = GpuCurves(str(tmp_path))
    for step, load in ((4, 90.0), (4, 100.0), (5, 50.0)):
        curves.add(step, (GpuUse(0, load),))
    curves.flush()
    [path] = tmp_path.iterdir()
    assert [(one.step, one.value) for one in read_scalars(path.read_bytes())] == [(4, 95.0), (5, 50.0)]
    assert mean_scalars([(GpuUse(0),)]) == {}, "a driver that reports nothing leaves no scalars"


def test_the_history_of_a_long_training_stays_short_and_spans_all_of_it() -> None:
    history = LossHistory()
    for step in range(10_000):
        history.add(step, float(step))
    assert HISTORY // 2 <= len(history.losses) < HISTORY
    assert history.losses[0] < 500 and history.losses[-1] > 9_500
    assert list(history.losses) == sorted(history.losses)


def test_a_new_supervisor_continues_the_history(bench: Bench) -> None:
    for folder in (bench.job().root, bench.layout.tensorboard):
        Path(folder).mkdir(parents=True)
    Path(bench.job().gauges).write_bytes(dumps(Gauges((FIRST,), (3.0, 2.0))))
    Path(bench.layout.progress).write_bytes(dumps(Progress(9, loss=1.0)))
    recorder = GaugeRecorder(bench.layout, bench.job(), bench.spec())
    recorder.finish()
    assert json.loads(Path(bench.job().gauges).read_text())["losses"] == [3.0, 2.0, 1.0]


def test_a_resumed_job_continues_the_losses_and_replaces_the_steps_that_it_trains_again(bench: Bench) -> None:
    for folder in (bench.job(1).root, bench.job(2).root):
        Path(folder).mkdir(parents=True)
    Path(bench.job(1).gauges).write_bytes(dumps(Gauges((), (5.0, 4.0, 3.0), (1, 2, 3))))
    Path(bench.layout.progress).write_bytes(dumps(Progress(3, loss=2.0, began=2)))
    GaugeRecorder(bench.layout, bench.job(2), bench.spec(number=2)).finish()
    recorded = json.loads(Path(bench.job(2).gauges).read_text())
    assert (recorded["losses"], recorded["steps"]) == ([5.0, 4.0, 2.0], [1, 2, 3])


def test_figures_of_a_resumed_run_cover_all_of_its_jobs(bench: Bench) -> None:
    """The second job resumes at the last step, so it makes no step of its own."""
    bench.start("--steps", 3, "--step-s", 0.01)
    until(lambda: bench.survey().state is JobState.SUCCEEDED, "the end of job 1")
    first = bench.survey()
    bench.start("--steps", 0, number=2, resume_from="checkpoints/checkpoint-3")
    until(lambda: bench.survey().job == 2 and bench.survey().state is JobState.SUCCEEDED, "the end of job 2")
    run = bench.survey()
    assert first.progress is not None and run.progress is not None
    assert (run.progress.step, run.progress.loss, run.progress.began) == (3, first.progress.loss, 3)
    assert run.earlier_s == pytest.approx(first.elapsed_s)
    assert run.run_elapsed_s == pytest.approx(run.earlier_s + (run.elapsed_s or 0.0))
    assert [(job.number, job.last_step) for job in list_jobs(bench.host, PROJECT, bench.run)] == [(1, 3), (2, None)]


def test_a_running_job_pushes_gpu_load_and_losses_and_leaves_curves(bench: Bench, install: Callable[..., None]) -> None:
    install(cards=[TITAN_RTX])
    go = bench.workdir / "go"
    bench.host.close()
    bench.start("--steps", 200, "--step-s", 0.05, "--until", go)
    for news in follow_job(bench.host, PROJECT, bench.run):
        if news.gauges.gpus and len(news.gauges.losses) > 1:
            go.touch()
    assert news.state is JobState.SUCCEEDED and news.elapsed_s
    run = bench.survey()
    assert run.gauges.gpus == (GpuUse(0, 0.0, 3 * MIB, 24576 * MIB, 35.0),)
    assert run.elapsed_s and run.elapsed_s > 0
    assert any(file.name.startswith("tensorboard/gpu/") for file in run.events)


def test_a_hanging_nvidia_smi_does_not_delay_the_end_of_a_job_and_is_not_one_of_its_processes(
    bench: Bench, install: Callable[..., None]
) -> None:
    install(hangs=True)
    bench.host.close()
    bench.start("--steps", 10000, "--until", "/never", grace_s=5)
    until(lambda: bench.survey().progress, "a step")
    answer = stop_job(bench.host, PROJECT, bench.run)
    assert answer.state is JobState.STOPPED and answer.left == ()
    assert answer.result is not None and "cannot be killed" not in answer.result.reason
