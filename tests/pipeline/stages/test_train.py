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


class Leaver(NoListener):
    """Keeps what somebody was told who pressed Ctrl-C."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def note(self, text: str) -> None:
        self.told.append(text)


def test_ctrl_c_while_the_start_is_under_way_says_that_the_run_may_have_begun(tmp_path: Path) -> None:
    def press_ctrl_c(args: object) -> object:
        raise KeyboardInterrupt

    view, leaver = view_of(tmp_path, None), Leaver()
    host = FakeHost(operations={"job.start": press_ctrl_c})
    with pytest.raises(KeyboardInterrupt):
        Train().run(Context(host, view, leaver))
    run = find_note(view.records, None).run
    assert leaver.told == [
        f"{run} may have begun. To see, to come back to it, or to end it:",
        f"  pipeline attach {run}",
        f"  pipeline status {run}",
        f"  pipeline stop {run}",
    ]
