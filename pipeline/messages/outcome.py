"""What a verb found and did, as one value: stages, findings, job, artifacts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from pipeline.messages.hints import typed_out
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobState, RunSurvey


class StageState(StrEnum):
    """`skipped`: its checkpoint holds, nothing was done. `done`: made true just now."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    PENDING = "pending"
    RUNNING = "running"


ORDER = (Severity.ERROR, Severity.WARNING, Severity.INFO)


@dataclass(frozen=True)
class StageOutcome:
    """How one stage stands, and why in one phrase."""

    name: str
    state: StageState
    seconds: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class JobOutcome:
    """The training process as last seen. `age_s` is set where it comes from memory and not from the host."""

    state: JobState
    step: int | None = None
    steps: int | None = None
    exit: int | None = None
    loss: float | None = None
    age_s: float | None = None


@dataclass(frozen=True)
class Outcome:
    """Everything there is to say; what a verb does not know stays out.

    `given` are the words that were typed, names and what stood beside them, which a hint that is to be typed carries.
    """

    command: str
    exit_code: ExitCode = ExitCode.OK
    host: str = ""
    config: str = ""
    run: str = ""
    stages: tuple[StageOutcome, ...] = ()
    findings: tuple[Finding, ...] = ()
    job: JobOutcome | None = None
    artifacts: dict[str, str] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    given: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """The verb exits with 0."""
        return self.exit_code is ExitCode.OK

    @property
    def told(self) -> tuple[Finding, ...]:
        """The findings with hints that can be typed as they stand: errors first, then warnings, each as they came."""
        worst_first = sorted(self.findings, key=lambda one: ORDER.index(one.severity))
        return tuple(replace(one, hint=typed_out(one.hint, self.host, self.config, self.given)) for one in worst_first)


def job_outcome(run: RunSurvey) -> JobOutcome:
    """The job as the host sees it now. Progress is written at intervals, so a whole checkpoint may be further.

    Where a later job began again at step 0, the checkpoints of the jobs before it say nothing about its steps.
    """
    progress = run.progress
    began_again = run.job > 1 and progress is not None and progress.began == 0
    whole = (one.step for one in run.checkpoints if not one.problem)
    kept = max(whole, default=0) if run.result and not began_again else 0
    return JobOutcome(
        run.state,
        max(progress.step, kept) if progress else None,
        progress.steps if progress else None,
        run.result.exit if run.result else None,
        progress.loss if progress else None,
    )
