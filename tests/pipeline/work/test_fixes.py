"""The site that fixers see."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.work.fixes import site_of
from remote.errors import ChangeRefused
from tests.lab.fake_host import FakeHost
from tests.pipeline.views import view_of


def test_fixers_that_plan_may_ask_the_host_and_change_nothing_there(tmp_path: Path) -> None:
    host = FakeHost(operations={"look": lambda args: {"seen": True}})
    seen = site_of(view_of(tmp_path), host).host
    assert seen is not None
    assert seen.ask("look") == {"seen": True}
    with pytest.raises(ChangeRefused):
        seen.act("look")
    assert host.changes == []


def test_without_a_host_there_is_none_to_look_at(tmp_path: Path) -> None:
    assert site_of(view_of(tmp_path), None).host is None
