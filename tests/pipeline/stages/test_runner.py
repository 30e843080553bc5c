"""A stage is done if its checkpoint matches the present inputs and the host agrees; stages run in order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from pipeline.messages.outcome import StageState
from pipeline.records.inputs import digest
from pipeline.records.stage_checkpoints import StageCheckpoints, checkpoint_now, read_checkpoints
from pipeline.runs.view import View
from pipeline.stages.runner import run_stages
from pipeline.stages.stage import Context, RunOptions, StageResult, judge_status
from remote.errors import Busy, ConnectionLost, DeadlineExceeded, DiskFull, HalfstepError
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from tests.pipeline.listeners import NoListener
from tests.pipeline.stages.toys import DONE, FAILED, PENDING, RUNNING, SKIPPED, Toy, bad, run


def test_a_second_run_does_nothing(tmp_path: Path) -> None:
    stages = [Toy("sync"), Toy("fix"), Toy("train")]
    assert run(stages, tmp_path / "s.json") == ([DONE] * 3, ExitCode.OK)
    assert run(stages, tmp_path / "s.json") == ([SKIPPED] * 3, ExitCode.OK)
    assert [stage.runs for stage in stages] == [1, 1, 1]


def test_what_a_stage_could_not_find_out_is_shown_again_when_it_is_skipped(tmp_path: Path) -> None:
    stage = Toy("verify", outcome=StageResult(reason="half of it", caveat="the rest could not be seen"))
    assert run([stage], tmp_path / "s.json")[0] == [DONE]
    assert run([stage], tmp_path / "s.json")[0] == [SKIPPED]
    status = judge_status(stage, cast(View, None), read_checkpoints(tmp_path / "s.json"))
    assert (status.done, status.reason) == (True, "the rest could not be seen")


def test_a_failed_stage_is_reported_with_its_error_and_time_until_it_is_done(tmp_path: Path) -> None:
    record = tmp_path / "s.json"
    run([Toy("verify", outcome=StageResult(Report((Finding.error("autocast", "it is off"),))))], record)
    status = judge_status(Toy("verify"), cast(View, None), read_checkpoints(record))
    assert not status.done
    assert re.fullmatch(r"failed at 2\d{3}-\d\d-\d\d [\d:]{8} UTC: it is off", status.reason), status.reason
    run([Toy("verify")], record)
    assert read_checkpoints(record).failures == {}


def test_a_stage_checkpoint_alone_does_not_make_a_stage_done(tmp_path: Path) -> None:
    stages = [Toy("sync"), Toy("fix")]
    run(stages, tmp_path / "s.json")
    stages[0].in_order = False
    assert run(stages, tmp_path / "s.json")[0] == [DONE, SKIPPED]


def test_changed_inputs_run_the_stage_again(tmp_path: Path) -> None:
    stages = [Toy("sync"), Toy("fix")]
    run(stages, tmp_path / "s.json")
    stages[1].depends_on = {"files": "2"}
    assert run(stages, tmp_path / "s.json")[0] == [SKIPPED, DONE]


def test_stages_after_a_failure_are_pending_and_the_finding_decides_the_exit_code(tmp_path: Path) -> None:
    stages = [Toy("sync"), Toy("fix", outcome=StageResult(bad("no room", ExitCode.DISK))), Toy("train")]
    assert run(stages, tmp_path / "s.json") == ([DONE, FAILED, PENDING], ExitCode.DISK)
    assert set(read_checkpoints(tmp_path / "s.json").stages) == {"sync"}


def test_a_stage_whose_job_the_user_stopped_is_stopped(tmp_path: Path) -> None:
    for check in ("stopped", "preempted"):
        ended = Report((Finding.error(check, f"r was {check}", exit_code=ExitCode.PREEMPTED),))
        stages = [Toy("train", outcome=StageResult(ended)), Toy("logs")]
        assert run(stages, tmp_path / "s.json") == ([StageState.STOPPED, PENDING], ExitCode.PREEMPTED)
    assert read_checkpoints(tmp_path / "s.json").stages == {}


def test_a_stage_whose_check_fails_after_it_ran_has_failed(tmp_path: Path) -> None:
    stages = [Toy("sync", makes_it_so=False)]
    assert run(stages, tmp_path / "s.json") == ([FAILED], ExitCode.SYNC)
    assert read_checkpoints(tmp_path / "s.json").stages == {}


def test_a_warning_of_a_check_is_shown_once_whatever_the_result_of_the_stage(tmp_path: Path) -> None:
    busy = Finding("gpu-occupied", Severity.WARNING, "somebody fills the card")
    for name, outcome in (
        ("silent", StageResult()),
        ("told", StageResult(Report((busy,)))),
        ("failed", StageResult(bad("no torch"))),
    ):
        context = Context(cast("object", None), cast(View, None), NoListener(), RunOptions())  # type: ignore[arg-type]
        stage = Toy("environment", outcome=outcome, warns=(busy,), makes_it_so=name != "failed")
        ran = run_stages(context, [stage], tmp_path / f"{name}.json", lambda context: None)
        assert [finding for finding in ran.findings if finding.severity is Severity.WARNING] == [busy], name
        assert len([finding for finding in ran.findings if finding.severity is Severity.ERROR]) == (name == "failed")


def test_pending_stages_are_announced_once_before_the_first_one_runs(tmp_path: Path) -> None:
    announcements: list[tuple[str, ...]] = []
    stages = [Toy("sync"), Toy("fix"), Toy("train"), Toy("logs")]
    run(stages, tmp_path / "s.json", until="sync")

    def announced(**options: str) -> list[tuple[str, ...]]:
        announcements.clear()
        context = Context(cast("object", None), cast(View, None), NoListener(), RunOptions(**options))  # type: ignore[arg-type]
        context.before_acting = announcements.append
        run_stages(context, stages, tmp_path / "s.json", lambda context: None)
        return list(announcements)

    assert announced(until="train") == [("fix", "train")]
    assert announced() == [("logs",)]
    assert announced() == []
    assert announced(force="train") == [("train", "logs")]


class Impatient(Toy):
    """A stage whose user presses Ctrl-C."""

    def run(self, context: Context) -> StageResult:
        raise KeyboardInterrupt


def test_after_ctrl_c_the_completed_stages_and_the_command_to_reattach_are_reported(tmp_path: Path) -> None:
    context = Context(cast("object", None), cast(View, None), NoListener(), RunOptions())  # type: ignore[arg-type]
    stages = [Toy("sync"), Impatient("fix"), Toy("train")]
    ran = run_stages(context, stages, tmp_path / "s.json", lambda context: None)
    assert [stage.state for stage in ran.stages] == [DONE, StageState.STOPPED, PENDING]
    assert ran.stages[1].reason == "", "the finding says it, once"
    assert ran.exit_code is ExitCode.INTERRUPTED
    assert [(finding.check, finding.hint) for finding in ran.findings] == [("interrupted", "pipeline run")]
    assert set(read_checkpoints(tmp_path / "s.json").stages) == {"sync"}


def test_after_ctrl_c_the_host_is_not_queried_again(tmp_path: Path) -> None:
    def asked(context: Context) -> None:
        raise AssertionError("the host was asked")

    context = Context(cast("object", None), cast(View, None), NoListener(), RunOptions())  # type: ignore[arg-type]
    stages = [Toy("train", outcome=StageResult(exit_code=ExitCode.INTERRUPTED, unfinished=True))]
    ran = run_stages(context, stages, tmp_path / "s.json", asked)
    assert ([stage.state for stage in ran.stages], ran.exit_code) == ([RUNNING], ExitCode.INTERRUPTED)


class Unreachable(Toy):
    """A stage that cannot act."""

    def run(self, context: Context) -> StageResult:
        raise DiskFull("no space left on /data", hint="df -h /data")


def test_a_stage_that_cannot_act_has_failed_with_the_reason_and_what_to_type(tmp_path: Path) -> None:
    context = Context(cast("object", None), cast(View, None), NoListener(), RunOptions())  # type: ignore[arg-type]
    stages = [Toy("sync"), Unreachable("fix"), Toy("train")]
    ran = run_stages(context, stages, tmp_path / "s.json", lambda context: None)
    assert [stage.state for stage in ran.stages] == [DONE, FAILED, PENDING]
    assert ran.stages[1].reason == "no space left on /data"
    assert ran.exit_code is ExitCode.DISK
    assert [(finding.check, finding.hint) for finding in ran.findings] == [("disk-full", "df -h /data")]
    assert set(read_checkpoints(tmp_path / "s.json").stages) == {"sync"}


class Cut(Toy):
    """A stage during which the connection is lost."""

    error: HalfstepError = ConnectionLost("the connection to h was lost")

    def run(self, context: Context) -> StageResult:
        raise self.error


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (ConnectionLost("the connection to h was lost"), "pipeline run"),
        (DeadlineExceeded("h sent nothing for 60 s"), "pipeline run"),
        (ConnectionLost("the proof ended without a report", hint="pipeline verify"), "pipeline verify"),
    ],
)
def test_after_a_lost_connection_the_command_that_continues_is_the_hint(
    tmp_path: Path, error: HalfstepError, hint: str
) -> None:
    context = Context(cast("object", None), cast(View, None), NoListener(), RunOptions())  # type: ignore[arg-type]
    stage = Cut("verify")
    stage.error = error
    ran = run_stages(context, [stage], tmp_path / "s.json", lambda context: None)
    assert [finding.hint for finding in ran.findings] == [hint]


def test_findings_of_a_stage_are_shown_even_if_the_connection_is_lost_afterwards(tmp_path: Path) -> None:
    def lost(context: Context) -> None:
        raise ConnectionLost("the line went away")

    context = Context(cast("object", None), cast(View, None), NoListener(), RunOptions())  # type: ignore[arg-type]
    stages = [Toy("train", outcome=StageResult(bad("loss is NaN", ExitCode.TRAINING), exit_code=ExitCode.TRAINING))]
    ran = run_stages(context, stages, tmp_path / "s.json", lost)
    assert ran.exit_code is ExitCode.TRAINING
    assert [finding.message for finding in ran.findings] == ["loss is NaN", "the line went away"]


def test_until_stops_after_its_stage(tmp_path: Path) -> None:
    stages = [Toy("sync"), Toy("fix"), Toy("train")]
    assert run(stages, tmp_path / "s.json", until="fix")[0] == [DONE, DONE]
    assert stages[2].runs == 0


def test_force_does_the_stage_and_all_after_it_again(tmp_path: Path) -> None:
    stages = [Toy("sync"), Toy("fix"), Toy("train")]
    run(stages, tmp_path / "s.json")
    assert run(stages, tmp_path / "s.json", force="fix")[0] == [SKIPPED, DONE, DONE]


def test_a_detached_job_is_running_and_writes_no_checkpoint(tmp_path: Path) -> None:
    stages = [Toy("train", outcome=StageResult(unfinished=True), makes_it_so=False), Toy("logs")]
    assert run(stages, tmp_path / "s.json") == ([RUNNING], ExitCode.OK)
    assert read_checkpoints(tmp_path / "s.json").stages == {}


def test_with_a_damaged_record_every_stage_is_checked_again(tmp_path: Path) -> None:
    stages = [Toy("sync"), Toy("fix")]
    run(stages, tmp_path / "s.json")
    (tmp_path / "s.json").write_bytes(b"{")
    assert run(stages, tmp_path / "s.json")[0] == [DONE, DONE]


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        ({"torch": "2.9.0"}, {"torch": "2.9.1"}, "torch: 2.9.0 -> 2.9.1"),
        ({"files": "a" * 64}, {"files": "b" * 64}, "files changed"),
        ({"a": "1", "b": "1"}, {"a": "2", "b": "2"}, "a: 1 -> 2; also b"),
        ({"data": "1", "run": "x-1"}, {"data": "2", "run": "x-2"}, "data: 1 -> 2"),
        ({}, {"driver": "560"}, "driver: none -> 560"),
    ],
)
def test_a_stage_reports_which_input_changed(before: dict[str, str], now: dict[str, str], reason: str) -> None:
    stage = Toy("sync", depends_on=now, in_order=True)
    claim = checkpoint_now("sync", digest(before), before, seconds=0)
    status = judge_status(stage, cast(View, None), StageCheckpoints().with_checkpoint(claim))
    assert (status.done, status.reason) == (False, reason)


def test_a_stage_that_was_refused_because_of_a_busy_run_is_not_recorded_as_failed(tmp_path: Path) -> None:
    record = tmp_path / "s.json"

    @dataclass
    class Refused(Toy):
        def run(self, context: Context) -> StageResult:
            raise Busy("r is running with other inputs")

    assert run([Refused("verify")], record) == ([FAILED], ExitCode.BUSY)
    assert read_checkpoints(record).failures == {}
