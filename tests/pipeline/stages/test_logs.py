"""What the stage `logs` reports about pulled files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pipeline.runs.run_id import run_id
from pipeline.stages.logs import Logs
from pipeline.stages.stage import Context
from remote.protocol.jobs import EventFile, JobState
from remote.protocol.segments import SEGMENT
from tests.lab.fake_host import FakeHost
from tests.pipeline.listeners import NoListener
from tests.pipeline.views import run_in, survey_of, view_of
from tests.remote.pull.event_records import point


def test_a_run_without_event_files_or_adapter_is_reported(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    host = FakeHost(operations={"log.read": lambda args: {}})
    neither = "; it wrote no event files; it saved no adapter"
    assert Logs().run(Context(host, view, NoListener())).reason.endswith(neither)
    assert Logs().summary(view).endswith(neither)


def test_full_weights_of_a_script_are_named_after_the_stage(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    host = FakeHost(operations={"log.read": lambda args: {}})
    host.write_bytes(f"{view.layout.run(run_id(view)).code}/checkpoints/last.pt", b"all weights")
    where, download = Logs().run(Context(host, view, NoListener())).follow_up
    assert "code/checkpoints/last.pt" in where
    assert download.startswith("to download them:\n") and "code/checkpoints/last.pt " in download


def test_a_run_with_event_files_is_not(tmp_path: Path) -> None:
    view, curve = view_of(tmp_path), point(1, 4.0)
    run = replace(
        run_in(view, JobState.SUCCEEDED), events=(EventFile("tensorboard/events.out.tfevents.1", len(curve)),)
    )
    view = view.with_survey(survey_of(view.survey.tree, run))
    host = FakeHost(
        operations={"log.read": lambda args: {}, "events.read": lambda args: {"files": [{"ending": "clean"}]}},
        streams={"events.read": [SEGMENT.pack(0, 0, len(curve)) + curve]},
    )
    done = Logs().run(Context(host, view, NoListener()))
    assert done.reason == f"{len(curve)} B downloaded to .halfstep/runs/{run.run}; it saved no adapter"
