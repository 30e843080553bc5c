"""Stage `train`: the job ended well, and its newest checkpoint is verified."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from pipeline.diagnosis.diagnose import diagnose_text
from pipeline.hosts.follow import follow_to_end
from pipeline.hosts.output import end_of
from pipeline.judgements.job import judge_end, judge_run, judge_watched
from pipeline.judgements.resuming import OFFERED, may_resume
from pipeline.messages.errors import findings_of
from pipeline.messages.masked import mask
from pipeline.records.inputs import Inputs
from pipeline.records.runs import note_job, write_note, write_start
from pipeline.stages.stage import Context, Done
from pipeline.work.fixes import tree_as_fixed
from pipeline.work.run_id import folder_of, name_of, next_serial, run_id, run_of, work_inputs
from pipeline.work.secrets import secret_values
from pipeline.work.start import next_number, note_of, start_request
from pipeline.work.view import View
from remote.errors import Busy, HalfstepError, Interrupted
from remote.operations.jobs import prepare_resume, start_job
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.jobs import JobNews, JobState
from remote.pull.log import pull_log

DIAGNOSED_LINES = 4000


class Train:
    """The long run, as a detached job on the host."""

    name = "train"
    exit_code = ExitCode.TRAINING

    def inputs(self, view: View) -> Inputs:
        return {**work_inputs(view), "run": run_id(view)}

    def check(self, view: View) -> Report:
        return judge_run(run_of(view), name_of(view))

    def holds(self, view: View) -> str:
        run = run_of(view)
        steps = f", {run.progress.step} steps" if run is not None and run.progress else ""
        return f"{name_of(view)} ended well{steps}"

    def run(self, context: Context) -> Done:
        """Starts the job, joins the one under way, or resumes the one that ended early; waits for its end.

        A run that ended well is found by its name and not trained again. Raises Busy where the work is to be forced
        and is still under way.
        """
        if context.wishes.force not in ("", "logs"):
            _refuse_while_running(context.view)
            context.view = replace(context.view, serial=next_serial(context.view))
        run, records, host = run_id(context.view), context.view.records, context.view.host.name
        found = self.check(context.view).ok
        (write_note if found else write_start)(records, note_of(context.view, run))
        name, folder = records.run_name(run, host), records.run(run, host)
        if found:
            return Done(reason=f"found on the host: {self.holds(context.view)}")
        number = self._started(context, run, name)
        if context.wishes.detach:
            _say(context, goes_on(name))
            return Done(reason=f"{name} runs on its own", unfinished=True)
        last: deque[JobNews] = deque(maxlen=1)
        try:
            news = follow_to_end(context.host, context.view.layout.key, run, context.listener, last.append)
        except KeyboardInterrupt:
            _say(context, goes_on(name))
            return left(name)
        finally:
            for seen in last:
                note_job(folder, seen.state, seen.progress, seen.result)
        done = done_of(name, number, news)
        if done.exit_code is ExitCode.OK:
            return done
        return replace(done, report=_why(context, run, number).and_also(done.report))

    def _started(self, context: Context, run: str, name: str) -> int:
        survey = run_of(context.view)
        if survey is not None and survey.state is JobState.RUNNING:
            context.listener.progress(f"joining {name}, which is under way")
            return survey.job
        number = next_number(survey)
        resume = _resume_point(context, run) if survey is not None and survey.checkpoints else ""
        if number > 1 and not resume:
            begins = f"job {number} begins at its first step"
            if context.view.config.command is not None:
                begins += ", or where the command goes on by itself: it runs in the same folder"
            context.listener.note(f"{name} left no checkpoint that is known here: {begins}")
        try:
            started = start_job(context.host, start_request(context.view, run, number, resume))
        except KeyboardInterrupt:
            _say(context, ways_back(f"{name} may have begun. To see, to come back to it, or to end it:", name))
            raise
        note_job(folder_of(context.view), started.state, None, started.result)
        return started.number


def _say(context: Context, lines: tuple[str, ...]) -> None:
    for line in lines:
        context.listener.note(line)


def _refuse_while_running(view: View) -> None:
    run = run_of(view)
    if run is not None and run.state is JobState.RUNNING:
        raise Busy(
            f"{name_of(view)} is still running; a second training of the same work would share its card",
            where=view.host.name,
            hint=f"pipeline stop {name_of(view)}",
        )


def _resume_point(context: Context, name: str) -> str:
    """The newest verified checkpoint to go on from; a run whose every checkpoint is broken stops here, with exit 43."""
    point = prepare_resume(context.host, context.view.layout.key, name)
    command = context.view.config.command
    if command is None:
        context.listener.note(f"resuming {name} from {point.checkpoint.name}")
        return point.path
    context.listener.note(
        f"{name} has {point.checkpoint.name}, which is offered to the script as {OFFERED}; "
        "the job's first step shows whether it resumes"
    )
    if not may_resume(tree_as_fixed(context.view), command):
        context.listener.note(
            f"no file of the project reads {OFFERED} or loads a checkpoint, so the script probably starts again at "
            "step 0; what to write: pipeline explain resume"
        )
    return point.path


def _why(context: Context, name: str, number: int) -> Report:
    """What the end of the job's output says of its failure; the output is here from now on."""
    view = context.view
    try:
        output = pull_log(context.host, view.layout.key, name, number, folder_of(view)).path
    except HalfstepError as error:
        words = f"the output of job {number} could not be brought home: {error.message}"
        return Report((Finding("output", Severity.WARNING, words, error.where, f"pipeline diagnose {name_of(view)}"),))
    # What a job never said is no file here.
    text, first = end_of(output.read_bytes() if output.exists() else b"", DIAGNOSED_LINES)
    secrets = secret_values(view.host.config, view.config).values()
    return Report(diagnose_text(mask(text, secrets), str(output.relative_to(view.loaded.root)), first))


def left(name: str) -> Done:
    """Somebody wants to wait no longer; the job goes on."""
    words = Interrupted(f"interrupted; {name} goes on by itself", hint=f"pipeline attach {name}")
    return Done(Report(findings_of(words)), f"{name} goes on by itself", exit_code=words.exit_code, unfinished=True)


def goes_on(name: str) -> tuple[str, ...]:
    """What somebody who leaves must know."""
    return ways_back(f"{name} goes on by itself. To come back to it, or to end it:", name)


def ways_back(first: str, name: str) -> tuple[str, ...]:
    """That sentence, and what to type to reach the run."""
    return (first, f"  pipeline attach {name}", f"  pipeline status {name}", f"  pipeline stop {name}")


def done_of(name: str, number: int, news: JobNews | None) -> Done:
    """What the end of a job means for the stage."""
    failure = judge_end(name, news)
    watched = judge_watched(name, news.watched if news is not None else ())
    if failure is not None:
        return Done(Report((failure, *watched)), exit_code=failure.exit_code)
    steps = "done"
    if news is not None and news.progress:
        began = f" (resumed at {news.progress.began})" if news.progress.began else ""
        steps = f"{news.progress.step} steps{began}"
    loss = f", loss {news.progress.loss:.4g}" if news and news.progress and news.progress.loss is not None else ""
    return Done(Report(watched), f"{name}: {steps}{loss}", (f"job {number}",))
