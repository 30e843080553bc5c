"""A verb that selected a run which is not running names the runs that are, if one of them may have been meant."""

from __future__ import annotations

import pytest

from pipeline.hosts.which_run import as_errors, judge_others, judge_still_training
from pipeline.records.runs import RunNote
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Severity
from remote.protocol.jobs import JobState

NEWER = RunNote("plain-0022ccdd", "titan", "plain", "key", 2.0, name="plain-0022ccdd")
OLDER = "plain-0011aabb"


@pytest.mark.parametrize(
    ("typed", "state", "named"),
    [
        (None, JobState.STOPPED, True),
        (None, JobState.SUCCEEDED, True),
        ("plain", JobState.FAILED, True),
        ("plain-00", JobState.LOST, True),
        (None, JobState.RUNNING, False),
        (NEWER.name, JobState.STOPPED, False),
        ("tiny", JobState.STOPPED, False),
    ],
)
def test_another_run_that_trains_is_named_unless_the_selected_run_trains_or_was_named_in_full(
    typed: str | None, state: JobState, named: bool
) -> None:
    found = judge_others("stop", typed, NEWER, state, {OLDER: "running"})
    assert [(one.check, one.severity, one.hint) for one in found] == (
        [("another-run", Severity.WARNING, f"pipeline stop {OLDER}")] if named else []
    )
    assert [(one.severity, one.exit_code) for one in as_errors(found)] == [(Severity.ERROR, ExitCode.BUSY)] * named


@pytest.mark.parametrize("state", ["running", "queued"])
def test_after_a_stop_the_runs_that_still_train_or_wait_on_the_host_are_named(state: str) -> None:
    [one] = judge_still_training("stop", "titan", {OLDER: state})
    assert (one.message, one.hint) == (f"{OLDER} is still {state} on titan", f"pipeline stop {OLDER}")
    [one] = judge_others("stop", None, NEWER, JobState.STOPPED, {OLDER: state})
    assert one.message == f"{NEWER.name} is not running; {OLDER} is {state}"
