"""`Outcome`: the result of a verb as one value, with stages, findings, job and artifacts."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Any

from pipeline.messages.hints import complete_hint
from remote.protocol.dataclass import dataclass, field
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.gauges import GpuUse
from remote.protocol.jobs import JobState, Progress, RunSurvey, seconds_left
from remote.protocol.quantities import count


class StageState(StrEnum):
    """The state of a stage.

    `skipped`: the stage did not run, because its checkpoint is valid. `done`: the stage ran. `stopped`: the user
    stopped the stage's job, or the job was preempted.
    """

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    STOPPED = "stopped"
    PENDING = "pending"
    RUNNING = "running"


MAX_FINDINGS = 100
"""The maximum number of findings of each severity that are shown. A host could send any number."""
ORDER = (Severity.ERROR, Severity.WARNING, Severity.INFO)


@dataclass(frozen=True)
class StageOutcome:
    """The state of one stage, and the reason in one phrase."""

    name: str
    state: StageState
    seconds: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class JobOutcome:
    """The state of a job.

    `age_s` is the age in seconds of the values if they come from the local record, because the host is unreachable;
    otherwise, it is None. The losses and `elapsed_s` cover all jobs of the run; a running job is included up to now.
    `earlier_s` is the part of `elapsed_s` before the newest job, which started at `started_unix`. `eta_s` is the time
    that the remaining steps take. `unit` is what `step` counts: steps, or the answers of an evaluation. A queued job
    also has the state RUNNING; `waits` is the reason why it is queued, or "".
    """

    state: JobState
    step: int | None = None
    steps: int | None = None
    exit: int | None = None
    loss: float | None = None
    age_s: float | None = None
    best_loss: float | None = None
    first_loss: float | None = None
    started_unix: float | None = None
    elapsed_s: float | None = None
    eta_s: float | None = None
    step_s: float | None = None
    gpus: tuple[GpuUse, ...] = ()
    losses: tuple[float, ...] = ()
    unit: str = "step"
    waits: str = ""
    earlier_s: float = 0.0

    @property
    def shown_state(self) -> str:
        """Return the state in one word. A RUNNING job that has not begun is `queued`."""
        return "queued" if self.state is JobState.RUNNING and self.waits else self.state.value


@dataclass(frozen=True)
class Outcome:
    """The result of a verb.

    Unknown values are empty. `given` are the command-line arguments for host, config and overrides; commands in hints
    repeat them, unless they are `foreign`, from a record that another user wrote. `varied` are the overrides that
    distinguish this run from other runs of the same command.
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
    varied: tuple[str, ...] = ()
    foreign: bool = False

    @property
    def ok(self) -> bool:
        """Return True if the verb exits with 0."""
        return self.exit_code is ExitCode.OK

    @property
    def shown_findings(self) -> tuple[Finding, ...]:
        """Return the findings, errors first, then warnings, with complete commands in the hints.

        If there are more than MAX_FINDINGS of a severity, the others are only counted.
        """
        worst_first = [one for severity in ORDER for one in self._shown_of(severity)]
        config, given = ("", ()) if self.foreign else (self.config, self.given)
        return tuple(replace(one, hint=complete_hint(one.hint, self.host, config, given)) for one in worst_first)

    def _shown_of(self, severity: Severity) -> list[Finding]:
        found = [one for one in self.findings if one.severity is severity]
        others = len(found) - MAX_FINDINGS
        more = Finding("more-findings", severity, f"{count(others, 'more finding')} of this severity")
        return [*found[:MAX_FINDINGS], *([more] if others > 0 else [])]


def job_outcome(run: RunSurvey) -> JobOutcome:
    """Return the job's state and step.

    Progress is recorded at intervals. If the newest checkpoint has a later step than the recorded progress, that step
    is returned. Checkpoints of earlier jobs do not count if the newest job started again at step 0.
    """
    progress, running = run.progress, run.state is JobState.RUNNING
    restarted = run.job > 1 and progress is not None and progress.began == 0
    saved = (one.step for one in run.checkpoints if not one.problem)
    newest = max(saved, default=0) if run.result and not restarted else 0
    known = progress or Progress(0)
    return JobOutcome(
        run.state,
        max(progress.step, newest) if progress else None,
        known.steps,
        run.result.exit if run.result else None,
        known.loss,
        best_loss=known.best_loss,
        first_loss=known.first_loss,
        started_unix=run.started.started_unix or None if run.started else None,
        elapsed_s=run.run_elapsed_s,
        eta_s=seconds_left(progress) if running else None,
        step_s=known.pace_seconds or known.step_seconds,
        gpus=run.gauges.gpus if running else (),
        losses=run.gauges.losses,
        unit=known.unit,
        waits=run.waits,
        earlier_s=run.earlier_s,
    )
