"""`run` on several hosts: run the stages on each host, then one training run on all hosts with torchrun."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from pipeline.actions.heal import run_and_heal
from pipeline.actions.join_group import group_state, join_runs, refuse_unless_own
from pipeline.actions.run import (
    collect_results,
    keep_evidence,
    outcome_of,
    record_of,
    report_job,
    run_session,
)
from pipeline.actions.session import refresh_view
from pipeline.actions.train_group import JobEnd, attach_to_all, follow_all, start_on_all, stop_running
from pipeline.hosts.pending import PendingHost
from pipeline.messages.errors import findings_of
from pipeline.messages.listener import Listener
from pipeline.messages.outcome import Outcome, StageOutcome, StageState
from pipeline.runs.consent import require_group_consent
from pipeline.runs.group_checks import GroupState, group_of, judge_group
from pipeline.runs.run_id import (
    folder_of,
    name_of,
    newest_serial,
    next_serial,
    resumed_run,
    run_id,
    run_of,
    work_fingerprint,
)
from pipeline.runs.secrets import require_secrets, secret_values
from pipeline.runs.selection import Selection
from pipeline.stages.logs import Logs
from pipeline.stages.new_run import announce_new_run
from pipeline.stages.order import STAGE_NAMES, STAGES
from pipeline.stages.runner import RunResult, run_stages, state_after
from pipeline.stages.stage import Context, RunOptions
from pipeline.stages.train import (
    Train,
    commands_for,
    diagnose_output,
    interrupted_result,
    result_of,
    with_diagnosis,
)
from remote.errors import BadUsage, HalfstepError
from remote.link.prompter import Prompter
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report
from remote.protocol.layout import run_name
from remote.protocol.shell import shell_command

BEFORE_TRAINING = "verify"


def run_on_all(
    chosen: Sequence[tuple[Selection, PendingHost]],
    listener: Listener,
    options: RunOptions,
    *,
    prompter: Prompter | None = None,
) -> Outcome:
    """Run all stages on all hosts, and return one outcome for all hosts."""
    for selection, _ in chosen:
        _refuse_scheduler(selection)
    require_group_consent([selection.host for selection, _ in chosen], prompter)
    listener.stage_started("connect")
    with contextlib.ExitStack() as stack:
        contexts = [
            stack.enter_context(run_session(selection, listener, options, pending, prompter))
            for selection, pending in chosen
        ]
        results = _prepare(contexts, options)
        if all(ran.exit_code is ExitCode.OK for ran in results) and options.until not in STAGE_NAMES[:4]:
            _train_and_pull(contexts, results, options)
        outcome = _outcome(contexts, results)
    if not any(ran.acted for ran in results) and outcome.ok:
        listener.note("nothing to do")
    return outcome


def _refuse_scheduler(selection: Selection) -> None:
    host = selection.host
    for key in ("scheduler", "container"):
        if getattr(host.config, key) is not None:
            message = f"{host.name} has `{key}:`, which is not supported with several hosts in --host"
            raise BadUsage(message, where="--host", hint=shell_command("pipeline run --host {}", host.name))


def _prepare(contexts: Sequence[Context], options: RunOptions) -> list[RunResult]:
    """Run the stages before the training on each host in turn. Stop at the first failure."""
    results: list[RunResult] = []
    until = options.until if options.until in STAGE_NAMES[:4] else BEFORE_TRAINING
    for context in contexts:
        if results and results[-1].exit_code is not ExitCode.OK:
            results.append(RunResult())
            continue
        context.options = replace(options, until=until, force=options.force if options.force != "logs" else "")
        context.listener.heading(f"{context.view.loaded.name} on {context.view.host.name}")
        ran = run_and_heal(context, STAGES, record_of(context.view))
        if ran.acted:
            keep_evidence(context)
        results.append(ran)
    return results


def _train_and_pull(contexts: Sequence[Context], results: list[RunResult], options: RunOptions) -> None:
    """Train on all hosts together, then pull the results of each host.

    Adds stage outcomes and findings to `results`.
    """
    listener = contexts[0].listener
    listener.heading(f"{contexts[0].view.loaded.name} on {', '.join(one.view.host.name for one in contexts)}")
    try:
        failed, acted = _train(contexts, options)
    except HalfstepError as error:
        failed, acted = [(0, Report(findings_of(error)), error.exit_code)], True
    except KeyboardInterrupt:
        done = interrupted_result(name_of(contexts[0].view))
        for line in (done.reason, *done.follow_up):
            listener.note(line)
        failed, acted = [(0, done.report, done.exit_code)], True
    for ran in results:
        ran.acted = ran.acted or acted
    for at, report, code in failed:
        results[at].findings.extend(report.findings)
        results[at].exit_code = results[at].exit_code or code
    if failed:
        state = state_after(failed[0][1])
        for context, ran in zip(contexts, results, strict=True):
            ran.stages.extend((StageOutcome("train", state), StageOutcome("logs", StageState.PENDING)))
            collect_results(context, ran)
        return
    if acted and options.detach:
        for ran in results:
            ran.stages.append(StageOutcome("train", StageState.RUNNING))
        return
    for context, ran in zip(contexts, results, strict=True):
        _finish(context, ran, options)


def _finish(context: Context, ran: RunResult, options: RunOptions) -> None:
    """Record the stage `train` as successful, and pull the run's results."""
    context.listener.heading(f"results of {context.view.host.name}")
    context.options = replace(options, force=options.force if options.force == "logs" else "")
    done = run_stages(context, (Train(), Logs()), record_of(context.view), refresh_view)
    ran.stages.extend(done.stages)
    ran.findings.extend(done.findings)
    ran.exit_code, ran.acted = done.exit_code, ran.acted or done.acted
    if done.acted:
        collect_results(context, ran)


Failed = list[tuple[int, Report, ExitCode]]
"""For each failure: the index of the host, its findings, and their exit code."""


def _train(contexts: Sequence[Context], options: RunOptions) -> tuple[Failed, bool]:
    """Run the training on all hosts until it ends. Return the failures, and True if there was work to do."""
    report = judge_group([context.view for context in contexts])
    if not report.ok:
        return [(0, report, exit_code_of(report.findings, ExitCode.ENVIRONMENT))], True
    _form_group(contexts, options)
    joined = not options.resume and join_runs(contexts)
    state = group_state(contexts, options.resume)
    if state is GroupState.DONE:
        return [], False
    refuse_unless_own(contexts, state, joined=joined)
    if joined and state is GroupState.RUNNING:
        attach_to_all(contexts)
    if state is not GroupState.RUNNING:
        report = _start(contexts)
        if not report.ok:
            return [(0, report, exit_code_of(report.findings, ExitCode.TRAINING))], True
    for context in contexts:
        report_job(context)
    listener, name = contexts[0].listener, name_of(contexts[0].view)
    if options.detach:
        for line in (f"{name} keeps running on the hosts", *commands_for(name)):
            listener.note(line)
        return [], True
    ends = follow_all(contexts, listener)
    for context in contexts:
        refresh_view(context)
    return [failure for end in ends if (failure := _failure_of(contexts, end)) is not None], True


def _start(contexts: Sequence[Context]) -> Report:
    """Stop the jobs that wait for the failed job of another host, then start the run's next job on all hosts."""
    stop_running(contexts)
    for context in contexts:
        require_secrets(context.view.host.config, context.view.config)
    announce_new_run(contexts[0])
    return start_on_all(contexts)


def _form_group(contexts: Sequence[Context], options: RunOptions) -> None:
    """Combine the hosts into one group, so that the run has the same id on all hosts."""
    group = group_of([context.view for context in contexts])
    for context in contexts:
        context.view = replace(context.view, group=group)
    forced = options.force not in ("", "logs")
    resumed = options.resume or next(filter(None, (resumed_run(context.view) for context in contexts)), "")
    if resumed and not forced:
        for context in contexts:
            context.view = replace(context.view, resume=resumed)
        return
    first = run_name(contexts[0].view.loaded.name, work_fingerprint(contexts[0].view))
    serial = max(next_serial(one.view) if forced else newest_serial(one.view.survey, first) for one in contexts)
    for context in contexts:
        context.view = replace(context.view, serial=serial)


def _failure_of(contexts: Sequence[Context], end: JobEnd) -> tuple[int, Report, ExitCode] | None:
    """Return the failure of a job: the host's index, the findings with the errors in the output, and the exit code.

    Return None if the job succeeded.
    """
    context = contexts[end.at]
    view = context.view
    if end.error is not None:
        if not isinstance(end.error, HalfstepError):
            raise end.error
        return end.at, Report(findings_of(end.error)), end.error.exit_code
    run, name = run_of(view), name_of(view)
    result = result_of(name, run.job if run is not None else 0, end.news)
    report = result.report
    if result.exit_code is not ExitCode.OK:
        secrets = tuple(secret_values(view.host.config, view.config).values())
        number = run.job if run is not None else 0
        found = diagnose_output(context.host, view.layout.key, run_id(view), number, folder_of(view), secrets)
        report = with_diagnosis(name, report, found)
    report = report.plus(Train().check(view))
    return None if report.ok else (end.at, report, exit_code_of(report.findings, ExitCode.TRAINING))


def _outcome(contexts: Sequence[Context], results: Sequence[RunResult]) -> Outcome:
    """Return one outcome for all hosts: each stage with its worst state, and each finding with its host."""
    outcomes = [outcome_of(context, ran) for context, ran in zip(contexts, results, strict=True)]
    names = [context.view.host.name for context in contexts]
    findings = tuple(
        replace(finding, message=f"{name}: {finding.message}")
        for name, outcome in zip(names, outcomes, strict=True)
        for finding in outcome.findings
    )
    first = next((one for one in outcomes if not one.ok), outcomes[0])
    members = [
        {"host": name, "run": one.run, "job": one.job.shown_state if one.job else "absent", "artifacts": one.artifacts}
        for name, one in zip(names, outcomes, strict=True)
    ]
    return replace(
        first,
        host=",".join(names),
        run=outcomes[0].run,
        stages=_worst(outcomes),
        findings=_distinct(findings),
        artifacts=next((one.artifacts for one in outcomes if "adapter" in one.artifacts), first.artifacts),
        more={**first.more, "members": members},
    )


SEVERITY = (
    StageState.FAILED,
    StageState.STOPPED,
    StageState.RUNNING,
    StageState.PENDING,
    StageState.DONE,
    StageState.SKIPPED,
)


def _worst(outcomes: Sequence[Outcome]) -> tuple[StageOutcome, ...]:
    found = [stage for outcome in outcomes for stage in outcome.stages]
    return tuple(
        min((one for one in found if one.name == name), key=lambda one: SEVERITY.index(one.state))
        for name in STAGE_NAMES
        if any(one.name == name for one in found)
    )


def _distinct(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(dict.fromkeys(findings))
