"""The lines of one chart can be distinguished."""

from __future__ import annotations

import re

import pytest

from pipeline.report.curves import Curve
from pipeline.report.panels import draw_loss, draw_panels


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
