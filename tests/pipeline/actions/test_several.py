"""Several runs in one command: which call is due for each, and the exit code of all."""

from __future__ import annotations

import pytest

from pipeline.actions.several import is_prepared, is_training, options_for, worst_exit_code
from pipeline.messages.outcome import Outcome, StageOutcome, StageState
from pipeline.stages.stage import Phase, RunOptions
from remote.protocol.exits import ExitCode

VERIFIED = Outcome("run", stages=(StageOutcome("fix", StageState.DONE), StageOutcome("verify", StageState.SKIPPED)))
QUEUED = Outcome("run", stages=(*VERIFIED.stages, StageOutcome("train", StageState.RUNNING)))
ENDED = Outcome("run", stages=(*VERIFIED.stages, StageOutcome("train", StageState.SKIPPED)))
FAILED = Outcome("run", ExitCode.PRECISION, stages=VERIFIED.stages)


@pytest.mark.parametrize(
    ("outcome", "options", "starts", "waits"),
    [
        (VERIFIED, RunOptions(), True, False),
        (VERIFIED, RunOptions(until="verify"), False, False),
        (FAILED, RunOptions(), False, False),
        (Outcome("run"), RunOptions(), False, False),
        (QUEUED, RunOptions(), False, True),
        (QUEUED, RunOptions(detach=True), False, False),
        (ENDED, RunOptions(), False, False),
    ],
)
def test_only_a_verified_run_is_queued_and_only_a_queued_one_is_waited_for(
    outcome: Outcome, options: RunOptions, starts: bool, waits: bool
) -> None:
    assert is_prepared(outcome, options) is starts
    assert is_training(outcome, options) is waits


def test_a_run_is_forced_once_and_only_the_last_phase_waits() -> None:
    typed = RunOptions(force="sync", heal=False)
    prepare, start, follow = (options_for(phase, typed) for phase in (Phase.PREPARE, Phase.START, Phase.FOLLOW))
    assert (prepare.force, prepare.detach) == ("sync", True)
    assert (start.force, start.detach) == ("train", True)
    assert (follow.force, follow.detach, follow.heal) == ("", False, False)


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ((0, 0), 0),
        ((0, 40, 23), 40),
        ((60, 0, 23), 23),
        ((42, 75), 42),
        ((40, 130), 130),
    ],
)
def test_the_exit_code_is_that_of_the_first_failure_that_is_not_temporary(codes: tuple[int, ...], worst: int) -> None:
    assert worst_exit_code([Outcome("run", ExitCode(code)) for code in codes]) == worst
