"""The proof of one of several runs waits until no other job of the project uses the card or machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.stages.free_card import await_free_card
from pipeline.stages.stage import Context, Phase, RunOptions
from remote.errors import Busy
from remote.protocol.jobs import JobState, RunSurvey
from remote.protocol.machine import Gpu
from tests.lab.fake_host import FakeHost
from tests.pipeline.listeners import NoListener
from tests.pipeline.views import survey_of, view_of

CARD = Gpu(0, "GPU-1", "NVIDIA TITAN RTX", (7, 5), 24 * 2**30)


@pytest.mark.parametrize(("gpus", "device"), [((CARD,), "card"), ((), "machine")])
def test_the_next_command_waits_for_the_run_that_is_in_the_way(
    tmp_path: Path, gpus: tuple[Gpu, ...], device: str
) -> None:
    view = view_of(tmp_path, None)
    other = RunSurvey("other-0123abcd", "other", "f", 1, JobState.RUNNING)
    view = view.with_survey(replace(survey_of(view.survey.tree, other), gpus=gpus))
    options = RunOptions(detach=True, phase=Phase.PREPARE)
    with pytest.raises(Busy) as busy:
        await_free_card(Context(FakeHost(), view, NoListener(), options))
    assert busy.value.message == f"other-0123abcd uses the {device}, and the proof needs it"
    assert busy.value.hint == "pipeline wait other-0123abcd"
    await_free_card(Context(FakeHost(), view, NoListener(), replace(options, phase=Phase.ALL)))
