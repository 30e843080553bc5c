"""Run the stages in order: skip completed stages, run the other stages, and stop at the first failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.judgements.job import ENDED_EARLY
from pipeline.messages.errors import findings_of
from pipeline.messages.outcome import StageOutcome, StageState
from pipeline.records.inputs import digest
from pipeline.records.stage_checkpoints import StageCheckpoints, checkpoint_now, read_checkpoints, write_checkpoints
from pipeline.stages.stage import Context, Phase, Stage, StageResult, judge_status
from remote.errors import ConnectionLost, DeadlineExceeded, HalfstepError, Interrupted
from remote.protocol.dataclass import dataclass, field
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity

INTERRUPTED = "interrupted"

Refresh = Callable[[Context], None]
"""A function that updates the context's view from the host."""


@dataclass
class RunResult:
    """The outcomes of the stages. `acted` is True if at least one stage was not skipped."""

    stages: list[StageOutcome] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    exit_code: ExitCode = ExitCode.OK
    acted: bool = False


def run_stages(context: Context, stages: Sequence[Stage], record: Path, refresh: Refresh) -> RunResult:
    """Run every incomplete stage up to `until`, stop at the first failure, and write stage checkpoints to `record`."""
    result = RunResult()
    context.stages, context.findings = result.stages, result.findings
    checkpoints = read_checkpoints(record)
    if checkpoints.problem:
        context.listener.note(checkpoints.problem)
    forced = _forced(stages, context.options.force)
    for stage in stages:
        if result.exit_code is not ExitCode.OK:
            result.stages.append(StageOutcome(stage.name, StageState.PENDING))
            continue
        status = judge_status(stage, context.view, checkpoints)
        if status.done and stage.name not in forced:
            if status.checkpoint is not None and status.checkpoint != checkpoints.of(stage.name):
                checkpoints = checkpoints.with_checkpoint(status.checkpoint)
                write_checkpoints(record, checkpoints)
            outcome = StageOutcome(stage.name, StageState.SKIPPED, reason=status.reason)
            if context.options.phase in (Phase.ALL, Phase.PREPARE):
                context.listener.stage_ended(outcome)
        else:
            if not result.acted:
                context.before_acting(_pending(context, stages, checkpoints, forced))
            result.acted = True
            if stage.name in forced:
                checkpoints = checkpoints.without(stage.name, _fingerprint(stage, context))
            outcome, checkpoints = _run_stage(context, stage, checkpoints, result, refresh)
            write_checkpoints(record, checkpoints)
        result.stages.append(outcome)
        if stage.name == context.options.until or outcome.state is StageState.RUNNING:
            break
    return result


def _forced(stages: Sequence[Stage], first: str) -> set[str]:
    names = [stage.name for stage in stages]
    return set(names[names.index(first) :]) if first else set()


def _pending(
    context: Context, stages: Sequence[Stage], checkpoints: StageCheckpoints, forced: set[str]
) -> tuple[str, ...]:
    """Return the names of the stages up to `until` that have work to do."""
    names = [stage.name for stage in stages]
    wanted = stages[: names.index(context.options.until) + 1] if context.options.until in names else stages
    return tuple(
        stage.name
        for stage in wanted
        if stage.name in forced or not judge_status(stage, context.view, checkpoints).done
    )


def _run_stage(
    context: Context, stage: Stage, checkpoints: StageCheckpoints, result: RunResult, refresh: Refresh
) -> tuple[StageOutcome, StageCheckpoints]:
    context.listener.stage_started(stage.name)
    started = time.monotonic()
    done = _run_and_refresh(context, stage, refresh)
    seconds = time.monotonic() - started
    report = _with_check(context, stage, done)
    result.findings.extend(report.findings)
    state = StageState.RUNNING if done.unfinished else StageState.DONE
    reason = done.reason or (stage.summary(context.view) if report.ok and not done.unfinished else "")
    result.exit_code = done.exit_code
    if not done.unfinished and not report.ok:
        state, reason = state_after(report), report.errors[0].message.partition("\n")[0]
        result.exit_code = done.exit_code or exit_code_of(report.findings, stage.exit_code)
    elif not done.unfinished and done.exit_code is ExitCode.INTERRUPTED:
        state, reason = StageState.STOPPED, ""  # a finding reports the interruption
    outcome = StageOutcome(stage.name, state, seconds, reason)
    context.listener.stage_ended(outcome)
    for line in done.follow_up:
        text, _, command = line.partition("\n")
        context.listener.note(text, command)
    if state is not StageState.DONE:
        failed = state is StageState.FAILED and result.exit_code is not ExitCode.BUSY  # busy: the stage was refused
        now = _fingerprint(stage, context)
        if failed:
            return outcome, checkpoints.with_failure(stage.name, now, reason)
        return outcome, checkpoints.without(stage.name, now)
    inputs = dict(stage.inputs(context.view))
    checkpoint = checkpoint_now(
        stage.name, digest(inputs), inputs, seconds=seconds, notes=done.notes, caveat=done.caveat
    )
    return outcome, checkpoints.with_checkpoint(checkpoint)


def _fingerprint(stage: Stage, context: Context) -> str:
    return digest(dict(stage.inputs(context.view)))


def state_after(report: Report) -> StageState:
    """Return the state of a stage that ended early. Ctrl-C is no error: it ends the command, the job keeps running."""
    if report.ok:
        return StageState.RUNNING
    return StageState.STOPPED if report.errors[0].check in ENDED_EARLY else StageState.FAILED


def _run_and_refresh(context: Context, stage: Stage, refresh: Refresh) -> StageResult:
    """Run the stage and refresh the view. Errors and Ctrl-C become findings of the result."""
    done = StageResult()
    try:
        done = stage.run(context)
        if done.exit_code is not ExitCode.INTERRUPTED:
            refresh(context)
    except HalfstepError as error:
        if isinstance(error, (ConnectionLost, DeadlineExceeded)):
            error.hint = error.hint or "pipeline run"
        report = done.report.plus(Report(findings_of(error)))
        return replace(done, report=report, exit_code=done.exit_code or error.exit_code, unfinished=False)
    except KeyboardInterrupt:
        report = Report(findings_of(Interrupted(f"{INTERRUPTED} in {stage.name}", hint="pipeline run")))
        return replace(done, report=done.report.plus(report), exit_code=ExitCode.INTERRUPTED, unfinished=False)
    return done


def _with_check(context: Context, stage: Stage, done: StageResult) -> Report:
    """Return the findings of the stage and of its check.

    If the stage has errors, the errors of the check are omitted.
    """
    if done.unfinished or done.exit_code is ExitCode.INTERRUPTED:
        return done.report
    checked = [
        finding
        for finding in stage.check(context.view).findings
        if finding not in done.report.findings and (done.report.ok or finding.severity is not Severity.ERROR)
    ]
    return done.report.plus(Report(tuple(checked)))
