"""The proof of one of several runs waits until no other job of the project uses the card or machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.records.runs import write_note
from pipeline.runs.start import note_of
from pipeline.stages.free_card import await_free_card
from pipeline.stages.new_run import warn_of_other_runs
from pipeline.stages.stage import Context, Phase, RunOptions
from remote.errors import Busy
from remote.protocol.jobs import JobState, RunSurvey
from remote.protocol.machine import Gpu
from tests.lab.fake_host import FakeHost
from tests.pipeline.listeners import NoListener
from tests.pipeline.views import survey_of, view_of

CARD = Gpu(0, "GPU-1", "NVIDIA TITAN RTX", (7, 5), 24 * 2**30)


class Notes(NoListener):
    """Collects the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str, command: str = "") -> None:
        self.notes.append(text)


@pytest.mark.parametrize(
    ("state", "cards", "own", "warns"),
    [
        (JobState.RUNNING, None, None, True),
        (JobState.RUNNING, [0], [0, 1], True),
        (JobState.RUNNING, [0], [1], False),
        (JobState.SUCCEEDED, None, None, False),
    ],
)
def test_a_second_training_beside_a_running_one_is_warned_of(
    tmp_path: Path, state: JobState, cards: list[int] | None, own: list[int] | None, warns: bool
) -> None:
    view = view_of(tmp_path, None)
    view = view.with_survey(survey_of(view.survey.tree, RunSurvey("other-0123abcd", "other", "f", 1, state)))
    config = view.host.config.model_copy(update={"gpus": tuple(own) if own else None})
    view = replace(view, host=replace(view.host, config=config))
    note = replace(note_of(view, "other-0123abcd"), host_config={"host": "local", "gpus": cards})
    write_note(view.records, note)
    seen = Notes()
    warn_of_other_runs(Context(FakeHost(), view, seen))
    expected = [
        "warning: other-0123abcd is training on local; a second training shares its memory and its cards",
        "  pipeline status other-0123abcd",
        "  pipeline stop other-0123abcd",
    ]
    assert seen.notes == (expected if warns else [])
    queued = RunOptions(phase=Phase.PREPARE)
    warn_of_other_runs(Context(FakeHost(), view, silent := Notes(), queued))
    assert silent.notes == [], "the runs of one command wait for each other"


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
