"""The lines of one chart can be distinguished."""

from __future__ import annotations

import json
import re

import pytest

from pipeline.report.curves import Curve
from pipeline.report.panels import draw_loss, draw_panels
from pipeline.report.scores import judge_scores


@pytest.mark.parametrize(
    ("tags", "names"),
    [
        (("train/loss",), ()),
        (("train/loss", "eval/loss"), ("train", "eval")),
        (("train/loss", "train/train_loss", "eval/loss"), ("loss", "train_loss", "eval")),
        (("loss (student)", "loss (teacher)"), ("student", "teacher")),
    ],
)
def test_each_line_of_a_chart_has_a_unique_name(tags: tuple[str, ...], names: tuple[str, ...]) -> None:
    drawn = draw_loss([Curve(tag, ((1, 3.0), (2, 2.0 + number))) for number, tag in enumerate(tags)])
    assert drawn is not None
    assert sorted(re.findall(r">([a-z_]+) [0-9.]+</text>", drawn.svg)) == sorted(names)


def test_what_a_trainer_logs_about_itself_has_no_chart_and_is_no_score() -> None:
    own = ("train/epoch", "eval/runtime", "eval/samples_per_second", "eval/steps_per_second", "epoch", "eval_runtime")
    curves = [Curve(tag, ((10, 1.0), (20, 2.0))) for tag in (*own, "eval/loss", "train/temperature")]
    assert [one.title for one in draw_panels(curves)] == ["train/temperature"]
    assert judge_scores(curves) is None


def test_the_validation_loss_is_beside_the_other_scores() -> None:
    found = judge_scores([Curve(tag, ((20, 0.5),)) for tag in ("eval/loss", "eval/wer", "eval/runtime")])
    assert found is not None
    assert found.others == (("word error rate", 0.5), ("validation loss", 0.5))


def test_the_mean_that_a_trainer_logs_at_its_end_is_no_point_of_the_loss_chart() -> None:
    curves = [Curve("train/loss", ((1, 3.0), (2, 2.0))), Curve("train/train_loss", ((2, 2.5),))]
    drawn = draw_loss(curves)
    assert drawn is not None
    assert len(json.loads(drawn.data)["lines"]) == 1
    alone = draw_loss(curves[1:])
    assert alone is not None and len(json.loads(alone.data)["lines"]) == 1


def test_the_load_of_all_gpus_is_one_chart_for_each_value_in_its_unit() -> None:
    curves = [
        Curve(f"gpu{number}/{name}", ((1, value), (2, value)))
        for number in (0, 1)
        for name, value in (("gpu_utilization", 97.0), ("gpu_memory_bytes", 18.0 * 2**30), ("gpu_temperature", 71.0))
    ]
    drawn = {one.title: re.findall(r">(gpu[01]) ([^<]+)</text>", one.svg) for one in draw_panels(curves)}
    assert drawn == {
        "GPU utilization": [("gpu0", "97\u00a0%"), ("gpu1", "97\u00a0%")],
        "GPU memory": [("gpu0", "18\u00a0GiB"), ("gpu1", "18\u00a0GiB")],
        "GPU temperature": [("gpu0", "71\u00a0°C"), ("gpu1", "71\u00a0°C")],
    }


@pytest.mark.parametrize(
    ("point", "has_data"),
    [
        ((10**15, 1.0), True),
        ((10**15 + 1, 1.0), False),
        ((1 - 10**16, 1.0), False),
        ((2, 0.0), True),
        ((2, 1e-101), False),
    ],
)
def test_a_chart_has_data_for_the_script_only_if_the_script_can_draw_its_numbers(
    point: tuple[int, float], has_data: bool
) -> None:
    (drawn,) = draw_panels([Curve("train/x", tuple(sorted(((1, 1.0), point))))])
    assert bool(drawn.data) is has_data
    assert drawn.svg.startswith("<svg")
