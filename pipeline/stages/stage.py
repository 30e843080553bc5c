"""The `Stage` protocol, its context and result, and the check whether a stage checkpoint is still valid."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from pipeline.messages.listener import Listener
from pipeline.messages.outcome import StageOutcome
from pipeline.records.inputs import Inputs, digest
from pipeline.records.stage_checkpoints import StageCheckpoint, StageCheckpoints
from pipeline.report.evidence import Evidence
from pipeline.runs.view import View
from remote.host import Host
from remote.operations.jobs import start_job
from remote.protocol.dataclass import dataclass, field
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import StartAnswer
from remote.protocol.quantities import moment

INPUT_LABELS = {
    "files there": "files on the host",
    "wishes": "fixer settings",
    "files as fixed": "the project's files",
    "work": "the project's files or settings",
}
"""Labels that are shown for inputs. Stored stage checkpoints contain the keys."""


class Phase(Enum):
    """The part of a run that one call of `run_project` executes.

    ALL: all stages. A command with several runs executes three phases instead. PREPARE: all stages before the training.
    START: start the job. FOLLOW: follow the job and pull its results.
    """

    ALL = "all"
    PREPARE = "prepare"
    START = "start"
    FOLLOW = "follow"


@dataclass(frozen=True)
class RunOptions:
    """The options of `pipeline run` other than host and config. `resume` is the id of a run."""

    until: str = ""
    force: str = ""
    detach: bool = False
    heal: bool = True
    resume: str = ""
    phase: Phase = Phase.ALL


@dataclass(frozen=True)
class StageResult:
    """The result of running a stage: findings, a phrase for the stage's line, and notes for the report.

    `reason`: the phrase for the stage's line; if empty, the line shows `Stage.summary`. `unfinished`: the work
    continues in a detached job, so no checkpoint is written yet. `follow_up`: texts that are shown below the stage's
    line. A text may end with a line feed and a command. `caveat`: a property that the completed stage could not verify;
    shown again whenever the stage is skipped.
    """

    report: Report = field(default_factory=Report)
    reason: str = ""
    notes: tuple[str, ...] = ()
    exit_code: ExitCode = ExitCode.OK
    unfinished: bool = False
    follow_up: tuple[str, ...] = ()
    caveat: str = ""


def no_action(pending: tuple[str, ...]) -> None:
    """Do nothing. This is the default of `Context.before_acting`."""


def no_report(context: Context) -> None:
    """Do nothing. This is the default of `Context.on_job`."""


@dataclass
class Context:
    """The context in which a stage runs.

    `view` is refreshed after every stage; `evidence` is data for the report. `before_acting` is called once, before the
    first stage runs, with the names of all stages that have work to do. `announced` is True once the reasons for a new
    run have been shown. `start` starts a job on the host. `on_job` is called when the run's job has started or is
    already running. `stages` and `findings` are the outcomes and the findings so far.
    """

    host: Host
    view: View
    listener: Listener
    options: RunOptions = field(default_factory=RunOptions)
    evidence: Evidence = field(default_factory=Evidence)
    before_acting: Callable[[tuple[str, ...]], None] = no_action
    announced: bool = False
    start: Callable[[Host, StartRequest], StartAnswer] = start_job
    on_job: Callable[[Context], None] = no_report
    stages: list[StageOutcome] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


class Stage(Protocol):
    """One of the six stages. `inputs`, `check` and `summary` are pure; only `run` changes files or starts processes."""

    @property
    def name(self) -> str: ...

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a failure whose findings have no exit code."""
        ...

    def inputs(self, view: View) -> Inputs:
        """Return all inputs of the stage, by name. If the inputs are equal, the stage's work is equal."""
        ...

    def check(self, view: View) -> Report:
        """Judge from the survey whether the stage's result exists on the host now."""
        ...

    def summary(self, view: View) -> str:
        """Return the phrase for the stage's line if the stage has nothing to do."""
        ...

    def run(self, context: Context) -> StageResult:
        """Do the stage's work, or report why it could not be done. Afterwards the runner surveys the host again."""
        ...


@dataclass(frozen=True)
class StageStatus:
    """Whether a stage is done, and the reason. A stage that is done has a stage checkpoint."""

    done: bool
    reason: str
    checkpoint: StageCheckpoint | None = None


def judge_status(stage: Stage, view: View, checkpoints: StageCheckpoints) -> StageStatus:
    """Judge whether there is a stage checkpoint for the current inputs and its result exists on the host."""
    newest, failure = checkpoints.of(stage.name), checkpoints.failures.get(stage.name)
    if newest is None and failure is None:
        return StageStatus(False, "not done yet")
    inputs = dict(stage.inputs(view))
    checkpoint = checkpoints.find(stage.name, digest(inputs))
    if checkpoint is None and failure is not None and failure.fingerprint == digest(inputs):
        return StageStatus(False, f"failed at {moment(failure.failed_unix)}: {failure.message}")
    if checkpoint is None:
        return StageStatus(False, _difference(newest.inputs, inputs) if newest is not None else "not done yet")
    report = stage.check(view)
    if not report.ok:
        return StageStatus(False, report.errors[0].message)
    return StageStatus(True, checkpoint.caveat or stage.summary(view), checkpoint)


def _difference(before: Inputs, now: Inputs) -> str:
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if not changed:
        return "its stage checkpoint is inconsistent: the recorded digest is not that of the recorded inputs"
    name = changed[0]
    label = INPUT_LABELS.get(name, name)
    old, new = before.get(name, "none"), now.get(name, "none")
    short = len(old) < 40 and len(new) < 40
    detail = f"{label}: {old} -> {new}" if short else f"{label} changed"
    others = [INPUT_LABELS.get(one, one) for one in changed[1:] if one != "run"]  # the run id follows from the others
    return f"{detail}; also {', '.join(others)}" if others else detail
