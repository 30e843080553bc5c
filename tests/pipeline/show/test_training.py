"""The training as lines of text."""

from __future__ import annotations

import pytest

from pipeline.show.columns import fitting_columns
from pipeline.show.training import clock, describe_news, fold, gpu_lines, time_parts
from remote.protocol.gauges import GpuUse
from remote.protocol.jobs import JobNews, JobState, Progress

GIB = 2**30


def test_a_gpu_is_shown_as_far_as_its_driver_reports() -> None:
    full = GpuUse(0, 97.0, 18 * GIB, 24 * GIB, 71.0)
    assert list(gpu_lines([full])) == ["GPU 0  97 %  18 GiB of 24 GiB  71 C"]
    assert list(gpu_lines([GpuUse(1, None, 3 * GIB)])) == ["GPU 1  3 GiB"]
    assert list(gpu_lines([])) == []


def test_many_gpus_are_one_line() -> None:
    gpus = [GpuUse(number, 90.0 + number, number * GIB, 80 * GIB, 60.0 + number) for number in range(8)]
    assert list(gpu_lines(gpus)) == ["8 GPUs  90 to 97 %  at most 7 GiB  at most 67 C"]


def test_the_remaining_time_counts_down_between_two_steps() -> None:
    progress = Progress(40, 120, pace_seconds=2.0, tokens_per_second=4210.4)
    now = ["elapsed 1:20", "ETA 2:40", "2 s/step", "4,210 tokens/s"]
    assert list(time_parts(progress, 80.0)) == now
    assert list(time_parts(progress, 80.0, waited_s=10.0))[:2] == ["elapsed 1:30", "ETA 2:30"]
    assert list(time_parts(progress, 80.0, waited_s=1000.0))[1] == "ETA 0:00", "a late step never has negative time"


def test_without_a_total_or_a_pace_there_is_no_remaining_time() -> None:
    assert list(time_parts(Progress(40), 80.0)) == ["elapsed 1:20"]
    assert list(time_parts(None, None)) == []


@pytest.mark.parametrize(("seconds", "words"), [(0.4, "0:00"), (59.9, "0:59"), (4271, "1:11:11"), (-3, "0:00")])
def test_times_are_read_like_a_clock(seconds: float, words: str) -> None:
    assert clock(seconds) == words


@pytest.mark.parametrize(
    ("news", "words"),
    [
        (JobNews(1, JobState.RUNNING), "the job is starting"),
        (JobNews(1, JobState.LOST), "lost"),
        (JobNews(1, JobState.RUNNING, Progress(7)), "step 7"),
        (JobNews(1, JobState.RUNNING, Progress(7, 9, 1.25)), "step 7 of 9, mean loss 1.25"),
        (JobNews(1, JobState.RUNNING, Progress(7), stalled=True), "step 7, no new step for a long time"),
    ],
)
def test_the_state_of_a_job_is_one_line_of_a_log(news: JobNews, words: str) -> None:
    assert describe_news(news) == words


def test_lines_break_between_parts_only() -> None:
    assert fold(["one two", "three", "four"], 14) == ["one two  three", "four"]
    assert fold(["longer than the line"], 5) == ["longer than the line"]
    assert fold([], 5) == []


def test_optional_columns_go_in_order_until_the_table_fits() -> None:
    rows = [("tiny", "97 %", "1.5"), ("mini", "", "2")]
    assert fitting_columns(("run", "GPU", "loss"), rows, ("GPU", "loss"), 16)[0] == ["run", "GPU", "loss"]
    assert fitting_columns(("run", "GPU", "loss"), rows, ("GPU", "loss"), 15) == (
        ["run", "loss"],
        [["tiny", "1.5"], ["mini", "2"]],
    )
    assert fitting_columns(("run", "GPU", "loss"), rows, ("GPU", "loss"), 3)[0] == ["run"]


def test_an_optional_column_without_a_value_is_left_out() -> None:
    assert fitting_columns(("run", "GPU"), [("tiny", "")], ("GPU",), 100)[0] == ["run"]
    assert fitting_columns(("run", "GPU"), [], ("GPU",), 100)[0] == ["run"]
