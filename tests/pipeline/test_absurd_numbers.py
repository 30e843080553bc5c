"""Every number that a host sends may be infinite, NaN, negative or absurd: no command ends with a traceback."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pipeline.messages.outcome import JobOutcome, Outcome, job_outcome
from pipeline.records.last_seen import note_seen
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, write_note
from pipeline.report.comparison import ComparedRun, compare
from pipeline.report.comparison_page import render_comparison
from pipeline.report.model_card import CardFacts, render_card
from pipeline.report.page import render_report
from pipeline.report.saved import save_report
from pipeline.show.live_view import LiveView
from pipeline.show.rows import render_row
from pipeline.show.screen import Screen
from pipeline.verbs.list_runs import list_runs
from remote.protocol.evaluation import ADAPTER, Estimate, EvaluationResult, ModelScores
from remote.protocol.events import Scalar
from remote.protocol.gauges import Gauges, GpuUse
from remote.protocol.jobs import JobNews, JobResult, JobState, Progress, RunSurvey, Started
from remote.protocol.proof import ProvedStep
from remote.protocol.values import dumps
from tests.pipeline.report.test_report_page import FULL, Reader

FLOATS = (math.nan, math.inf, -math.inf, 1.7e308, -1.7e308, 1e99, 5e-324, -5e-324, 0.0, -1.0, 1e15)
INTEGERS = (2**63 - 1, -(2**63) + 1, 0, -1, 10**15)
PROGRESS = Progress(3, 10, 1.5, 0.5, 1024.0, 1, 0.5, 2**30, 1.8e9, 0, 1.25, 0.5, 1234.5, memory="a plan")
GAUGES = Gauges((GpuUse(0, 55.0, 2**30, 2**34, 60.0), GpuUse(1, 5.0, 2**20, 2**34, 61.0)), (3.0, 2.0, 1.5))
SURVEY = RunSurvey(
    "r-1",
    "tiny",
    "f",
    1,
    JobState.RUNNING,
    Started(7, 8, "b", started_unix=1.8e9),
    JobResult(0, ended_unix=1.9e9),
    PROGRESS,
    created_unix=1.8e9,
    gauges=GAUGES,
    elapsed_s=61.0,
)
NEWS = JobNews(1, JobState.RUNNING, PROGRESS, gauges=GAUGES, elapsed_s=61.0)
RESULT = EvaluationResult(
    (ModelScores(ADAPTER, {"wer": Estimate(0.25, 0.125, 0.5), "cer": Estimate(0.125)}),),
    10,
    9,
    rank=8,
    step=3,
    resamples=9,
)
PROOF = replace(
    FULL.proof,
    steps=(ProvedStep(True, 1.5, 2.0, 1.0, 1024.0, 1e-4), ProvedStep(True, 1.5, 2.0, 1.0, 1024.0, 1e-4)),
    step_seconds=0.5, eta_s=60.0, peak_bytes=2**30, total_bytes=2**34, wall_s=12.0, exit=0,
)  # fmt: skip
REPORT = replace(FULL, proof=PROOF, evaluation=RESULT, loss=1.5, best_loss=1.25, seen_unix=1.8e9)


def absurd(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (place, copy) with each number of a dataclass replaced by each extreme."""
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            for place, other in absurd(getattr(value, field.name), f"{path}.{field.name}"):
                yield place, replace(value, **{field.name: other})
    elif isinstance(value, tuple):
        for at, item in enumerate(value[:2] if value and isinstance(value[0], Scalar) else value):
            for place, other in absurd(item, f"{path}[{at}]"):
                yield place, (*value[:at], other, *value[at + 1 :])
    elif isinstance(value, dict):
        for key, item in value.items():
            for place, other in absurd(item, f"{path}.{key}"):
                yield place, {**value, key: other}
    elif isinstance(value, float):
        yield from ((f"{path}={other}", other) for other in FLOATS)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from ((f"{path}={other}", other) for other in INTEGERS)


def everywhere(value: Any, other: float) -> Any:
    """Return a copy with every float replaced by one extreme."""
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: everywhere(getattr(value, field.name), other) for field in fields(value)})
    if isinstance(value, tuple):
        return tuple(everywhere(item, other) for item in value)
    return other if isinstance(value, float) else value


def check(cases: Iterator[tuple[str, Any]], use: Callable[[Any], None]) -> None:
    """Collect the places of all failures, so that one run names every one."""
    failed, seen = [], 0
    for place, value in cases:
        seen += 1
        try:
            use(value)
        except Exception as error:  # noqa: BLE001 - any exception is the failure that the test is about
            failed.append(f"{place}: {type(error).__name__}: {error}")
    assert seen > 10
    assert failed == []


def strict(text: str) -> Any:
    """Parse JSON as a strict parser does."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_a_report_can_be_rendered() -> None:
    quick = replace(REPORT, scalars=REPORT.scalars[:6], stages=REPORT.stages[:1], fixes=(), config_text="")
    check(absurd(quick), render_report)


@pytest.mark.parametrize("other", FLOATS)
def test_a_report_with_many_absurd_numbers_can_be_rendered(other: float) -> None:
    page = render_report(everywhere(REPORT, other))
    assert max(map(len, Reader(page).text.split())) < 400


@pytest.mark.parametrize("tag", ["train/loss", "train/loss_scale", "other", "gpu0/gpu_memory_bytes", "eval/mdd/wer"])
def test_curves_of_absurd_values_can_be_drawn(tag: str) -> None:
    pairs = [(a, b) for a in (*FLOATS, 1.0) for b in (*FLOATS, 1.0)]
    # The steps of a curve are drawn in the same way for every tag.
    steps = ((1, 2), (-(2**63), 2**63 - 1), (0, 2**53))[: 3 if tag == "train/loss" else 1]

    def draw(values: tuple[float, float]) -> None:
        for ends in steps:
            scalars = tuple(Scalar(tag, *one, math.nan, "a") for one in zip(ends, values, strict=True))
            Reader(render_report(replace(REPORT, scalars=(*scalars, Scalar(tag, 5, 1.0, 1.0, "a")))))

    check((((repr(pair)), pair) for pair in pairs), draw)


def test_comparisons_and_model_cards_can_be_rendered() -> None:
    def use(report: Any) -> None:
        render_comparison(compare([ComparedRun(report), ComparedRun(REPORT)]), written_unix=report.seen_unix)
        render_card(CardFacts("p", "t", "b", None, (), {"r": 8}, True, report, report.evaluation))

    check(absurd(replace(REPORT, scalars=REPORT.scalars[:6], stages=(), proof=None)), use)


def test_a_report_with_absurd_numbers_is_saved_and_read_again(tmp_path: Path) -> None:
    records = Records(tmp_path)
    write_note(records, RunNote("r-1", "titan", "tiny", "p", 1.0))
    folder = records.run("r-1", "titan")
    for other in FLOATS:
        save_report(folder, everywhere(REPORT, other))
        note_seen(folder, everywhere(SURVEY, other))
        assert save_report(folder, everywhere(REPORT, other)).exists()


@pytest.mark.parametrize("as_json", [True, False])
def test_the_status_of_a_job_can_be_shown(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    def use(survey: RunSurvey) -> None:
        job = job_outcome(survey)
        for one in (job, replace(job, age_s=job.elapsed_s)):
            screen = Screen(as_json=as_json)
            screen.job(one) if not as_json else None
            screen.closing(Outcome("status", job=one))
        out = capsys.readouterr().out
        assert all(strict(line)["job"] for line in out.splitlines()) if as_json else out

    check(absurd(SURVEY), use)
    check(absurd(replace(SURVEY, state=JobState.SUCCEEDED)), use)


@pytest.mark.parametrize("as_json", [True, False])
def test_runs_can_be_listed(
    tmp_path: Path, as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "configs").mkdir()
    monkeypatch.chdir(tmp_path)
    records = Records(tmp_path)
    write_note(records, RunNote("r-1", "titan", "tiny", "p", time.time()))

    def use(survey: RunSurvey) -> None:
        note_seen(records.run("r-1", "titan"), survey)
        assert list_runs(as_json) == 0
        out = capsys.readouterr().out
        assert strict(out)["runs"][0]["run"] == "r-1" if as_json else "r-1" in out

    check(absurd(SURVEY), use)


def test_a_running_job_can_be_shown_live() -> None:
    def use(news: JobNews) -> None:
        console = Console(file=open("/dev/null", "w"), width=100, force_terminal=True)  # noqa: SIM115
        view = LiveView(console, keeps_stdout=True)
        view.start("train")
        try:
            view.training(news)
            console.print(view.render())
        finally:
            view.stop()
            console.file.close()

    check(absurd(NEWS), use)


def test_scalars_can_be_printed() -> None:
    tags = ("loss", "x_bytes", "tokens_per_second", "train_runtime", "epoch")
    rows = ((f"{tag} {value}", Scalar(tag, 2**63 - 1, value, value)) for tag in tags for value in FLOATS)
    check(rows, lambda scalar: render_row([scalar], 80))


def test_the_state_of_a_job_cannot_write_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    word = "\x1b]52;c;x\x07\u200b\u202e"
    Screen().job(JobOutcome(JobState.RUNNING, 1, 2, unit=f"step{word}", waits=f"queued{word}"))
    console = Console(file=sys.stdout, width=200, force_terminal=True, color_system=None)
    view = LiveView(console, keeps_stdout=True)
    for news in (replace(NEWS, progress=None, waits=word), replace(NEWS, progress=replace(PROGRESS, unit=word))):
        view.training(news)
        console.print(view.render())
    out = capsys.readouterr().out
    assert "\x1b]" not in out and "\x07" not in out and "\u200b" not in out and "\u202e" not in out
    assert out.count("\\x1b]52") >= 4


def test_absurd_numbers_survive_the_records_of_a_run() -> None:
    for other in FLOATS:
        assert dumps(everywhere(SURVEY, other))
