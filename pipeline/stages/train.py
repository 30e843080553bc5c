"""Stage `train`: the training job succeeded, and its newest trainer checkpoint is verified."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.hosts.follow import follow_to_end
from pipeline.hosts.tail import tail_of
from pipeline.judgements.job import (
    describe_no_checkpoint,
    is_repeated,
    judge_end,
    judge_run,
    judge_watched,
    start_without_checkpoint,
)
from pipeline.judgements.resuming import OFFERED, may_resume
from pipeline.loading import LazyModule
from pipeline.messages.errors import findings_of
from pipeline.messages.outcome import StageState
from pipeline.records.inputs import Inputs
from pipeline.records.last_seen import note_job
from pipeline.records.run_inputs import write_inputs
from pipeline.records.runs import write_note, write_start
from pipeline.runs.fixes import tree_as_fixed
from pipeline.runs.launcher import describe_processes
from pipeline.runs.new_run import inputs_to_record
from pipeline.runs.run_id import folder_of, name_of, next_serial, run_id, run_of, work_inputs
from pipeline.runs.runtime import describe_runtime
from pipeline.runs.secrets import secret_values
from pipeline.runs.start import next_number, note_of, start_request
from pipeline.runs.view import View
from pipeline.stages.new_run import announce_missing_run, announce_new_run, has_other_inputs, warn_of_other_runs
from pipeline.stages.stage import Context, Phase, StageResult
from remote.errors import Busy, HalfstepError, Interrupted
from remote.host import Host
from remote.operations.jobs import prepare_resume
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.hidden import mask
from remote.protocol.jobs import JobNews, JobState
from remote.protocol.loss import mean_loss_text
from remote.protocol.regular import open_regular
from remote.protocol.shell import shell_command
from remote.pull.log import pull_log

if TYPE_CHECKING:
    from pipeline.diagnosis import diagnose
    from pipeline.runs import missing_files
else:
    diagnose = LazyModule("pipeline.diagnosis.diagnose")
    missing_files = LazyModule("pipeline.runs.missing_files")

DIAGNOSED_LINES = 4000
DIAGNOSED_BYTES = 8 * 2**20


class Train:
    """Runs the training as a detached job on the host and waits for it."""

    name = "train"
    exit_code = ExitCode.TRAINING

    def inputs(self, view: View) -> Inputs:
        return {**work_inputs(view), "run": run_id(view)}

    def check(self, view: View) -> Report:
        return judge_run(run_of(view), name_of(view))

    def summary(self, view: View) -> str:
        run = run_of(view)
        steps = f", {run.progress.step} steps" if run is not None and run.progress else ""
        return f"{name_of(view)} succeeded{steps}"

    def found(self, view: View) -> str:
        """Return the reason why a run that has succeeded is not trained again."""
        return f"found on the host: {self.summary(view)}"

    def run(self, context: Context) -> StageResult:
        """Start the job, attach to a running job, or resume a job that ended early; then wait for its end.

        A run that has succeeded is found by its run id and is not trained again. Raises Busy if the stage is forced
        while the run's job is still running.
        """
        if context.options.force not in ("", "logs"):
            _refuse_while_running(context.view)
            context.view = replace(context.view, serial=next_serial(context.view))
        announce_new_run(context)
        fresh_code = has_other_inputs(context.view)
        run, records, host = run_id(context.view), context.view.records, context.view.host.name
        succeeded = self.check(context.view).ok
        # A command with several runs has started all of them when it follows the first: the last one is the newest.
        started = not succeeded and context.options.phase is not Phase.FOLLOW
        if started:
            announce_missing_run(context)
        (write_start if started else write_note)(records, note_of(context.view, run))
        name, folder = records.run_name(run, host), records.run(run, host)
        write_inputs(folder, inputs_to_record(context.view))
        if succeeded:
            return StageResult(reason=self.found(context.view))
        number = self._start_job(context, run, name, fresh_code=fresh_code)
        context.on_job(context)
        if context.options.detach:
            return detached_result(name, context.options.phase)
        reported = tuple(context.findings)
        is_known = partial(is_repeated, reported)
        try:
            news = follow_to_end(context.host, context.view.layout.key, run, context.listener, folder, is_known)
        except KeyboardInterrupt:
            return interrupted_result(name)
        number = news.number if news is not None else number
        result = result_of(name, number, news, reported)
        if result.exit_code is ExitCode.OK:
            return result
        secrets = tuple(secret_values(context.view.host.config, context.view.config).values())
        found = diagnose_output(context.host, context.view.layout.key, run, number, folder, secrets)
        found = Report(diagnose.with_undo(found.findings, context.view.survey.tree.fixed))
        return replace(result, report=with_diagnosis(name, result.report, found))

    def _start_job(self, context: Context, run: str, name: str, *, fresh_code: bool) -> int:
        for words in filter(None, (describe_processes(context.view), describe_runtime(context.view))):
            context.listener.note(words)
        survey = run_of(context.view)
        if survey is not None and survey.state is JobState.RUNNING:
            context.listener.progress(f"attaching to {name}, which is {survey.shown_state}")
            return survey.job
        if not any(stage.name == "verify" and stage.state is StageState.DONE for stage in context.stages):
            warn_of_other_runs(context)  # the stage verify did not run, which warns too
        number = next_number(survey)
        resume = _resume_point(context, run) if survey is not None and survey.checkpoints else ""
        if number > 1 and not resume:
            own_command = context.view.config.command is not None
            start = start_without_checkpoint("starts at step 0", own_command=own_command)
            without = describe_no_checkpoint(survey, "") if survey is not None else ""
            context.listener.note(f"{name} has {without or 'no verified checkpoint'}: job {number} {start}")
        try:
            queue = context.options.phase is not Phase.ALL
            request = start_request(context.view, run, number, resume, fresh_code=fresh_code, queue=queue)
            started = context.start(context.host, request)
        except KeyboardInterrupt:
            _note_all(context, (f"{name} may have started", *commands_for(name)))
            raise
        note_job(folder_of(context.view), started.state, None, started.result, number=started.number)
        _note_all(context, started.notes)
        return started.number


def _note_all(context: Context, lines: tuple[str, ...]) -> None:
    for line in lines:
        context.listener.note(line)


def _refuse_while_running(view: View) -> None:
    run = run_of(view)
    if run is not None and run.state is JobState.RUNNING:
        raise Busy(
            f"{name_of(view)} is still {run.shown_state}; a second job with the same inputs would share its card",
            where=view.host.name,
            hint=shell_command("pipeline stop {}", name_of(view)),
        )


def _resume_point(context: Context, name: str) -> str:
    """Return the path of the newest verified checkpoint. Raises CheckpointInvalid (exit 43) if all are invalid."""
    point = prepare_resume(context.host, context.view.layout.key, name)
    command = context.view.config.command
    if command is None:
        context.listener.note(f"resuming {name} from {point.checkpoint.name}")
        return point.path
    context.listener.note(
        f"{name} has {point.checkpoint.name}; the script gets its path as {OFFERED}, "
        "and the job's first step shows whether the script resumes from it"
    )
    if not may_resume(tree_as_fixed(context.view), command):
        context.listener.note(
            f"no file of the project reads {OFFERED} or loads a checkpoint, so the script will probably start again at "
            "step 0; how to resume: pipeline explain resume"
        )
    return point.path


def with_diagnosis(name: str, report: Report, found: Report) -> Report:
    """Return the report of a failed job after `found`, the findings of its output.

    If the catalog does not contain the error, `pipeline diagnose` would only repeat it: the hint is `pipeline logs`.
    """
    if all(one.check == diagnose.UNKNOWN for one in found.findings):
        again, show = shell_command("pipeline diagnose {}", name), shell_command("pipeline logs {}", name)
        report = replace(
            report, findings=tuple(replace(one, hint=show) if one.hint == again else one for one in report.findings)
        )
    return found.plus(report)


def diagnose_output(host: Host, project: str, run: str, number: int, folder: Path, secrets: Collection[str]) -> Report:
    """Download the output of a failed job to the run's local folder, and diagnose the end of the output."""
    try:
        output = pull_log(host, project, run, number, folder).path
    except HalfstepError as error:
        message = f"the output of job {number} could not be downloaded: {error.message}"
        hint = shell_command("pipeline diagnose {}", folder.name)
        return Report((Finding("output", Severity.WARNING, message, error.where, hint),))
    # A job that printed nothing has no local output file.
    text, first = "", 1
    with contextlib.suppress(FileNotFoundError), open_regular(output) as file:
        text, first = tail_of(file, DIAGNOSED_BYTES).text(DIAGNOSED_LINES)
    root = folder.parents[2]
    explain = missing_files.explained_by(root)
    return Report(diagnose.diagnose_text(mask(text, secrets), str(output.relative_to(root)), first, explain))


def detached_result(name: str, phase: Phase) -> StageResult:
    """Return the result of a stage that does not wait for its job.

    If the command has several runs, the job may still be queued.
    """
    if phase is Phase.ALL:
        return StageResult(reason=f"{name} keeps running on the host", unfinished=True, follow_up=commands_for(name))
    return StageResult(reason=f"{name} is queued on the host", unfinished=True)


def interrupted_result(name: str) -> StageResult:
    """Return the stage's result after Ctrl-C: the job keeps running, and the verb exits with 130."""
    error = Interrupted("interrupted", hint=shell_command("pipeline attach {}", name))
    message = f"{name} keeps running on the host"
    others = commands_for(name)[1:]
    return StageResult(
        Report(findings_of(error)), message, exit_code=error.exit_code, unfinished=True, follow_up=others
    )


def commands_for(name: str) -> tuple[str, ...]:
    """Return the commands for following, querying and stopping the run, one per line."""
    return tuple(f"  pipeline {verb} {name}" for verb in ("attach", "status", "stop"))


def result_of(name: str, number: int, news: JobNews | None, reported: tuple[Finding, ...] = ()) -> StageResult:
    """Return the stage's result for a job that has ended.

    `news` is the job's last event, `reported` are the findings of earlier stages.
    """
    failure = judge_end(name, news)
    watched = judge_watched(name, news.watched if news is not None else (), reported)
    if failure is not None:
        return StageResult(Report((failure, *watched)), exit_code=failure.exit_code)
    steps = "done"
    if news is not None and news.progress:
        resumed = f" (resumed at step {news.progress.began})" if news.progress.began else ""
        steps = f"{news.progress.step} steps{resumed}"
    loss = (
        f", {mean_loss_text(news.progress.loss)}" if news and news.progress and news.progress.loss is not None else ""
    )
    return StageResult(Report(watched), f"{name}: {steps}{loss}", (f"job {number}",))
