"""`pipeline explain`: every name there is, and the page of each."""

from __future__ import annotations

import pytest

from pipeline.cli import run
from pipeline.pages.find import all_names


def test_every_name_is_listed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain"]) == 0
    told = capsys.readouterr().out
    assert {name for _, name in all_names()} - set(told.split()) == set()
    assert max(len(line) for line in told.splitlines()) <= 110
