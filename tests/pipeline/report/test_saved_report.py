"""A saved report names the results that exist when its page is rendered."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.report.model import RunReport, Verdict
from pipeline.report.saved import render_saved_report, save_report


@pytest.mark.parametrize("made", [(), ("adapter",), ("tensorboard", "adapter")], ids=["none", "adapter", "both"])
def test_only_results_that_exist_are_named(tmp_path: Path, made: tuple[str, ...]) -> None:
    for name in made:
        (tmp_path / name).mkdir()
    page = save_report(tmp_path, RunReport("r", "c", "h", Verdict.FAILED)).read_text()
    assert {name for name in ("tensorboard", "adapter") if str(tmp_path / name) in page} == set(made)


def test_an_adapter_is_named_only_if_it_exists_locally(tmp_path: Path) -> None:
    promised = (("adapter", str(tmp_path / "adapter")),)
    page = save_report(tmp_path, RunReport("r", "c", "h", Verdict.TRAINED, artifacts=promised))
    assert str(tmp_path / "adapter") not in page.read_text()
    (tmp_path / "adapter").mkdir()
    assert str(tmp_path / "adapter") in render_saved_report(tmp_path).read_text()
