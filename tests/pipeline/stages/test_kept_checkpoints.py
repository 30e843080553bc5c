"""The checkpoints of a stage for its last inputs."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from pipeline.records.stage_checkpoints import KEPT, StageCheckpoints, checkpoint_now, read_checkpoints
from pipeline.runs.view import View
from pipeline.stages.stage import StageResult, judge_status
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report
from tests.pipeline.stages.toys import SKIPPED, Toy, run


def test_a_stage_that_was_done_with_these_inputs_before_others_is_skipped(tmp_path: Path) -> None:
    record = tmp_path / "s.json"
    for rate in ("1", "2", "1", "2"):
        run([Toy("verify", depends_on={"rate": rate})], record)
    again = Toy("verify", depends_on={"rate": "1"}, in_order=True)
    assert run([again], record) == ([SKIPPED], ExitCode.OK) and again.runs == 0
    newest = read_checkpoints(record).of("verify")
    assert newest is not None and newest.inputs == {"rate": "1"}


def test_a_failure_with_other_inputs_keeps_the_checkpoint_and_is_not_reported_for_it(tmp_path: Path) -> None:
    record, failed = tmp_path / "s.json", StageResult(Report((Finding.error("data", "there is no such folder"),)))
    done = Toy("verify", depends_on={"data": "a"})
    run([done], record)
    run([Toy("verify", depends_on={"data": "b"}, outcome=failed)], record)
    assert judge_status(done, cast(View, None), read_checkpoints(record)).done
    third = judge_status(Toy("verify", depends_on={"data": "c"}), cast(View, None), read_checkpoints(record))
    assert (third.done, third.reason) == (False, "data: a -> c")
    second = judge_status(Toy("verify", depends_on={"data": "b"}), cast(View, None), read_checkpoints(record))
    assert second.reason.endswith("there is no such folder")


def test_a_failure_with_the_same_inputs_removes_their_checkpoint_only(tmp_path: Path) -> None:
    record, failed = tmp_path / "s.json", StageResult(Report((Finding.error("data", "there is no such folder"),)))
    for rate in ("1", "2"):
        run([Toy("verify", depends_on={"rate": rate})], record)
    run([Toy("verify", depends_on={"rate": "2"}, outcome=failed)], record, force="verify")
    states = [
        judge_status(
            Toy("verify", depends_on={"rate": rate}, in_order=True), cast(View, None), read_checkpoints(record)
        ).done
        for rate in ("1", "2")
    ]
    assert states == [True, False]


def test_the_checkpoints_of_a_stage_are_limited() -> None:
    checkpoints = StageCheckpoints()
    for number in range(2 * KEPT):
        checkpoints = checkpoints.with_checkpoint(checkpoint_now("verify", str(number), {}, seconds=0))
    newest = [str(number) for number in range(2 * KEPT - 1, KEPT - 1, -1)]
    assert [one.fingerprint for one in checkpoints.stages["verify"]] == newest
