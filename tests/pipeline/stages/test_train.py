"""A training is started once, found again by its name, and never doubled."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.messages.listener import NoListener
from pipeline.records.runs import find_note
from pipeline.stages.stage import Context, Wishes
from pipeline.stages.train import Train
from remote.errors import Busy
from remote.fake import FakeHost
from remote.protocol.jobs import JobState
from tests.pipeline.views import view_of


def test_a_run_that_ended_well_is_found_and_not_trained_again(tmp_path: Path) -> None:
    host, view = FakeHost(), view_of(tmp_path)
    done = Train().run(Context(host, view, NoListener()))
    assert done.report.ok
    assert "found" in done.reason
    assert host.calls == [], "a host that refuses everything was asked for nothing"
    assert find_note(view.records, None).run == view.survey.runs[0].run


@pytest.mark.parametrize("force", ["train", "verify", "sync"])
def test_forcing_what_is_under_way_is_refused(tmp_path: Path, force: str) -> None:
    view = view_of(tmp_path, JobState.RUNNING)
    with pytest.raises(Busy) as refused:
        Train().run(Context(FakeHost(), view, NoListener(), Wishes(force=force)))
    assert refused.value.hint == f"pipeline stop {view.survey.runs[0].run}"
