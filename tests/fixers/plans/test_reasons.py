"""A reason for several edits is shown once, with its lines; in a plan and in a report."""

from __future__ import annotations

import pytest

from fixers.frame.change import FileChange, Plan, gather_reasons
from fixers.plans.diff import render_diff
from pipeline.report.model import FixRow
from pipeline.report.sections import fixes

SCALED = "the scaler needs the unscaled gradients (scaler-gate)"


@pytest.mark.parametrize(
    ("why", "shown"),
    [
        ((), ()),
        (("line 3: a",), ("line 3: a",)),
        (("line 3: a", "line 9: b", "line 9: a"), ("lines 3, 9: a", "line 9: b")),
        (("line 28: a", "line 35: a", "line 35: a", "line 36: a"), ("lines 28, 35, 36: a",)),
        (("a: without a line", "line breaks: b", "a: without a line"), ("a: without a line", "line breaks: b")),
    ],
)
def test_a_reason_is_shown_once_with_its_lines(why: tuple[str, ...], shown: tuple[str, ...]) -> None:
    assert gather_reasons(why) == shown


def test_a_plan_and_a_report_have_each_reason_once() -> None:
    why = tuple(f"line {line}: {SCALED}" for line in (28, 35, 35, 36))
    plan = render_diff(Plan(changes=(FileChange("a.py", b"x\n", b"y\n", {"scaler-gate": 1}, why),)))
    page = fixes([FixRow(("scaler-gate",), "a.py", why)])
    assert plan.count(SCALED) == 1 and page.count(SCALED) == 1
    assert "# lines 28, 35, 36: " in plan and "lines 28, 35, 36: " in page
