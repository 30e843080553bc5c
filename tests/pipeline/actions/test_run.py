"""What `run` leaves here of a training that ended badly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pipeline.actions.run import bring_home_what_failed
from pipeline.messages.listener import NoListener
from pipeline.messages.outcome import StageOutcome, StageState
from pipeline.stages.runner import StagesResult
from pipeline.stages.stage import Context
from remote.fake import FakeHost
from remote.protocol.jobs import EventFile, JobState
from remote.protocol.segments import SEGMENT
from tests.pipeline.views import run_in, survey_of, view_of
from tests.remote.pull.event_records import point

EVENTS = "tensorboard/events.out.tfevents.1"
TRAIN_FAILED = StageOutcome("train", StageState.FAILED)


def test_curves_and_output_of_a_failed_training_are_here(tmp_path: Path) -> None:
    view = view_of(tmp_path, JobState.FAILED)
    curve = point(1, 4.0)
    ran = run_in(view, JobState.FAILED)
    view = view.with_survey(survey_of(view.survey.tree, replace(ran, events=(EventFile(EVENTS, len(curve)),))))
    host = FakeHost(
        operations={"log.read": lambda args: {}, "events.read": lambda args: {"files": [{"ending": "clean"}]}},
        streams={
            "log.read": [SEGMENT.pack(0, 0, 3) + b"bad"],
            "events.read": [SEGMENT.pack(0, 0, len(curve)) + curve],
        },
    )
    context = Context(host, view, NoListener())
    bring_home_what_failed(context, StagesResult([StageOutcome("verify", StageState.FAILED)]))
    assert host.calls == [], "no training has failed"
    bring_home_what_failed(context, StagesResult([TRAIN_FAILED]))
    folder = view.records.run(ran.run)
    assert (folder / EVENTS).read_bytes() == curve
    assert (folder / "jobs" / "1" / "output.log").read_bytes() == b"bad"


def test_a_host_that_gives_nothing_takes_nothing_from_what_is_known(tmp_path: Path) -> None:
    ran = StagesResult([TRAIN_FAILED])
    bring_home_what_failed(Context(FakeHost(), view_of(tmp_path, JobState.FAILED), NoListener()), ran)
    assert ran.findings == []
