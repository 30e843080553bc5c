"""All stages in order: what holds is skipped, what does not is made true, what fails says what to type next."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline.messages.errors import findings_of
from pipeline.messages.outcome import StageOutcome, StageState
from pipeline.records.checkpoints import StageCheckpoints, checkpoint_now, read_checkpoints, write_checkpoints
from pipeline.records.inputs import digest
from pipeline.stages.stage import Context, Done, Stage, judge_status
from remote.errors import HalfstepError, Interrupted
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity, exit_code_of

INTERRUPTED = "interrupted"

Look = Callable[[Context], None]
"""Brings the context's view up to date with the host."""


@dataclass
class StagesResult:
    """How far the stages came."""

    stages: list[StageOutcome] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    exit_code: ExitCode = ExitCode.OK
    acted: bool = False


def run_stages(context: Context, stages: Sequence[Stage], record: Path, look: Look) -> StagesResult:
    """Every stage up to `until` holds, or the first that could not be made true has failed; claims are kept."""
    ran = StagesResult()
    claims = read_checkpoints(record)
    if claims.problem:
        context.listener.note(claims.problem)
    forced = _forced(stages, context.wishes.force)
    for stage in stages:
        if ran.exit_code is not ExitCode.OK:
            ran.stages.append(StageOutcome(stage.name, StageState.PENDING))
            continue
        standing = judge_status(stage, context.view, claims.of(stage.name))
        if standing.holds and stage.name not in forced:
            outcome = StageOutcome(stage.name, StageState.SKIPPED, reason=standing.reason)
            context.listener.ended(outcome)
        else:
            if not ran.acted:
                context.before_acting(_left(context, stages, claims, forced))
            ran.acted = True
            claims = claims.without(tuple(forced & {stage.name}))
            outcome, claims = _act(context, stage, claims, ran, look)
            write_checkpoints(record, claims)
        ran.stages.append(outcome)
        if stage.name == context.wishes.until or outcome.state is StageState.RUNNING:
            break
    return ran


def _forced(stages: Sequence[Stage], first: str) -> set[str]:
    names = [stage.name for stage in stages]
    return set(names[names.index(first) :]) if first else set()


def _left(context: Context, stages: Sequence[Stage], claims: StageCheckpoints, forced: set[str]) -> tuple[str, ...]:
    """The stages up to `until` that have something to do, as far as can be seen before any of them acts."""
    names = [stage.name for stage in stages]
    wanted = stages[: names.index(context.wishes.until) + 1] if context.wishes.until in names else stages
    return tuple(
        stage.name
        for stage in wanted
        if stage.name in forced or not judge_status(stage, context.view, claims.of(stage.name)).holds
    )


def _act(
    context: Context, stage: Stage, claims: StageCheckpoints, ran: StagesResult, look: Look
) -> tuple[StageOutcome, StageCheckpoints]:
    context.listener.began(stage.name)
    began = time.monotonic()
    done = _tried(context, stage, look)
    seconds = time.monotonic() - began
    report = _told(context, stage, done)
    ran.findings.extend(report.findings)
    state = StageState.RUNNING if done.unfinished else StageState.DONE
    reason = done.reason or (stage.holds(context.view) if report.ok and not done.unfinished else "")
    ran.exit_code = done.exit_code
    if not done.unfinished and not report.ok:
        state, reason = StageState.FAILED, report.errors[0].message.partition("\n")[0]
        ran.exit_code = done.exit_code or exit_code_of(report.findings, stage.exit_code)
    elif not done.unfinished and done.exit_code is ExitCode.INTERRUPTED:
        state, reason = StageState.FAILED, INTERRUPTED
    outcome = StageOutcome(stage.name, state, seconds, reason)
    context.listener.ended(outcome)
    if state is not StageState.DONE:
        return outcome, claims.without((stage.name,))
    inputs = dict(stage.inputs(context.view))
    claim = checkpoint_now(stage.name, digest(inputs), inputs, seconds=seconds, notes=done.notes, caveat=done.caveat)
    return outcome, claims.with_claim(claim)


def _tried(context: Context, stage: Stage, look: Look) -> Done:
    """What the stage did. What kept it from acting, or us from looking afterwards, is what it found."""
    done = Done()
    try:
        done = stage.run(context)
        if done.exit_code is not ExitCode.INTERRUPTED:
            look(context)
    except HalfstepError as error:
        report = done.report.and_also(Report(findings_of(error)))
        return replace(done, report=report, exit_code=done.exit_code or error.exit_code, unfinished=False)
    except KeyboardInterrupt:
        report = Report(findings_of(Interrupted(f"{INTERRUPTED} in {stage.name}", hint="pipeline run")))
        return replace(done, report=done.report.and_also(report), exit_code=ExitCode.INTERRUPTED, unfinished=False)
    return done


def _told(context: Context, stage: Stage, done: Done) -> Report:
    """What the stage found, and what a look at what it made true adds: every warning, and the errors if it had none."""
    if done.unfinished or done.exit_code is ExitCode.INTERRUPTED:
        return done.report
    seen = [
        finding
        for finding in stage.check(context.view).findings
        if finding not in done.report.findings and (done.report.ok or finding.severity is not Severity.ERROR)
    ]
    return done.report.and_also(Report(tuple(seen)))
