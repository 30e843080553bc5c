"""Ctrl-C in a command that follows a training on two hosts ends the command. Both jobs keep running."""

from __future__ import annotations

import os
import signal

import pytest

from pipeline.actions.run_group import _outcome, _train_and_pull
from pipeline.actions.train_group import start_on_all
from pipeline.messages.outcome import StageState
from pipeline.stages.runner import RunResult, state_after
from pipeline.stages.stage import Context, RunOptions
from pipeline.stages.train import interrupted_result
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.jobs import JobNews, JobState
from tests.pipeline.actions.test_train_group import NoteListener, contexts, look

__all__ = ["contexts"]


class CtrlC(NoteListener):
    """A user who types Ctrl-C once, as soon as the job is shown."""

    typed = False

    def training(self, news: JobNews) -> None:
        if not self.typed:
            self.typed = True
            os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_leaves_both_jobs_running_and_names_the_commands_for_them(contexts: list[Context]) -> None:
    assert start_on_all(contexts).ok
    assert look(contexts) == [JobState.RUNNING] * 2
    shown = CtrlC()
    contexts[0].listener = shown
    results = [RunResult(), RunResult()]
    _train_and_pull(contexts, results, RunOptions())
    assert _outcome(contexts, results).exit_code is ExitCode.INTERRUPTED
    assert [finding.check for ran in results for finding in ran.findings] == ["interrupted"]
    assert [(stage.name, stage.state) for stage in results[0].stages] == [
        ("train", StageState.RUNNING),
        ("logs", StageState.PENDING),
    ]
    assert any("keeps running on the host" in note for note in shown.notes)
    assert look(contexts) == [JobState.RUNNING] * 2


@pytest.mark.parametrize(
    ("report", "state"),
    [
        (interrupted_result("tiny-0123abcd").report, StageState.RUNNING),
        (Report(), StageState.RUNNING),
        (Report((Finding.error("training", "exit 1"),)), StageState.FAILED),
        (Report((Finding.error("stopped", "was stopped"),)), StageState.STOPPED),
        (
            Report((Finding("slow", Severity.WARNING, "is slow"), Finding.error("training", "exit 1"))),
            StageState.FAILED,
        ),
    ],
)
def test_only_an_error_makes_a_stage_fail_or_stop(report: Report, state: StageState) -> None:
    assert state_after(report) is state
