"""The site (project, host and card) that is passed to fixers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.runs.fixes import site_of
from remote.errors import ChangeRefused
from tests.lab.fake_host import FakeHost
from tests.pipeline.views import view_of


def test_planning_fixers_may_query_the_host_and_change_nothing_on_it(tmp_path: Path) -> None:
    host = FakeHost(operations={"look": lambda args: {"seen": True}})
    seen = site_of(view_of(tmp_path), host).host
    assert seen is not None
    assert seen.ask("look") == {"seen": True}
    with pytest.raises(ChangeRefused):
        seen.act("look")
    assert host.changes == []


def test_without_a_host_the_site_has_no_host(tmp_path: Path) -> None:
    assert site_of(view_of(tmp_path), None).host is None
