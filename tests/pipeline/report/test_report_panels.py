"""The lines of one chart can be distinguished."""

from __future__ import annotations

import re

import pytest

from pipeline.report.curves import Curve
from pipeline.report.panels import draw_loss


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
