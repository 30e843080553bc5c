"""What a verb found and did: one value, shown as prose or as the one JSON object of the published protocol."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from pipeline.hints import typed_out
from remote.errors import HalfstepError
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobState

PROTOCOL = 1


class StageState(StrEnum):
    """`skipped`: its checkpoint holds, nothing was done. `done`: made true just now."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    PENDING = "pending"
    RUNNING = "running"


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
    """Everything there is to say; what a verb does not know stays out."""

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

    @property
    def ok(self) -> bool:
        return self.exit_code is ExitCode.OK

    @property
    def told(self) -> tuple[Finding, ...]:
        """The findings with hints that can be typed as they stand."""
        return tuple(replace(one, hint=typed_out(one.hint, self.host, self.config)) for one in self.findings)


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """The object of the published protocol."""
    told: dict[str, Any] = {
        "protocol": PROTOCOL,
        "command": outcome.command,
        "ok": outcome.ok,
        "exit_code": int(outcome.exit_code),
    }
    for name in ("host", "config", "run"):
        if value := getattr(outcome, name):
            told[name] = value
    if outcome.stages:
        told["stages"] = [_stage(stage) for stage in outcome.stages]
    told["findings"] = [_finding(finding) for finding in outcome.told]
    if outcome.job is not None:
        told["job"] = _job(outcome.job)
    if outcome.artifacts:
        told["artifacts"] = dict(outcome.artifacts)
    return {**told, **outcome.more}


def _stage(stage: StageOutcome) -> dict[str, Any]:
    return {
        "name": stage.name,
        "state": stage.state.value,
        "seconds": round(stage.seconds, 3),
        "reason": stage.reason,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "severity": finding.severity.value,
        "message": finding.message,
        "where": finding.where,
        "hint": finding.hint,
    }


def _job(job: JobOutcome) -> dict[str, Any]:
    fields = {"step": job.step, "steps": job.steps, "exit": job.exit, "loss": job.loss, "age_s": job.age_s}
    return {"state": job.state.value, **{name: value for name, value in fields.items() if value is not None}}


def outcome_of_error(command: str, error: HalfstepError) -> Outcome:
    """An exception as an outcome: its exit code, and its words as findings."""
    return Outcome(command, error.exit_code, findings=findings_of(error))


def findings_of(error: HalfstepError) -> tuple[Finding, ...]:
    """All that an exception says, under its class's name: CannotConnect is `cannot-connect`."""
    severity = Severity.WARNING if error.exit_code is ExitCode.INTERRUPTED else Severity.ERROR
    return error.findings or (
        Finding(error_name(type(error)), severity, error.message, error.where, error.hint, error.exit_code),
    )


def error_name(kind: type[HalfstepError]) -> str:
    """What that kind of error is called in findings and on its page."""
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in kind.__name__).lstrip("-")
