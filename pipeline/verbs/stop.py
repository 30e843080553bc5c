"""`pipeline stop`: end a run's job and all its processes, with time to save a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pipeline.hosts.open_run import OpenRun, open_run
from pipeline.hosts.pull import pull_run
from pipeline.hosts.which_run import as_errors, judge_other_hosts, judge_others, judge_still_training
from pipeline.judgements.job import describe_no_checkpoint, newest_kept, start_without_checkpoint
from pipeline.messages.outcome import job_outcome
from pipeline.records.files import locked
from pipeline.records.runs import RunNote
from pipeline.show.screen import Screen
from pipeline.verbs.run_outcome import outcome_for
from remote.errors import HalfstepError
from remote.operations.jobs import stop_job
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.job_requests import StopAnswer
from remote.protocol.jobs import JobState, RunSurvey
from remote.protocol.shell import on_host, shell_command

SLURM_LEFT = "slurm-jobs-left"
NAMED = 10
"""The most processes or jobs that a message names."""


def stop(run: str | None = None, grace: float | None = None, as_json: bool = False) -> int:
    """End the job and all its processes. `pipeline run` resumes the run from its checkpoint."""
    screen = Screen(as_json=as_json)
    with open_run(run, Path.cwd(), prompter=None if as_json else screen) as opened:
        note = opened.note
        survey, training = opened.look()
        answer: StopAnswer | None = None
        was_alive = survey.state is JobState.RUNNING
        others = judge_others("stop", run, note, survey.state, training)
        if was_alive:
            screen.progress(f"stopping {note.name}")
        if survey.state is not JobState.ABSENT:
            # The jobs that a command has submitted to Slurm may outlive the job of the run.
            answer = stop_job(opened.host, note.project, survey.run, grace_s=grace)
        if was_alive:
            survey, training = opened.look()
            if survey.has_begun:
                _pull(opened, survey, screen)
    if was_alive:
        others = judge_still_training("stop", note.host, training)
    else:
        others = as_errors(
            (*others, *judge_other_hosts("stop", run, note, opened.records, None if as_json else screen))
        )
    screen.note(describe_stop(note.name, survey, was_alive))
    if was_alive and survey.result is not None and survey.result.stopped:
        screen.note(describe_restart(survey, note))
    findings = (*(judge_left(answer, survey, note, was_alive=was_alive) if answer is not None else ()), *others)
    outcome = replace(
        outcome_for("stop", note),
        exit_code=exit_code_of(findings, ExitCode.BUSY),
        findings=findings,
        job=job_outcome(survey),
    )
    screen.closing(outcome)
    return outcome.exit_code


def _pull(opened: OpenRun, survey: RunSurvey, screen: Screen) -> None:
    """Pull the logs of the stopped run for later reports. If the pull fails, the run is stopped nevertheless."""
    note = opened.note
    try:
        with locked(opened.folder / "pull.lock", f"pull {note.name}"):
            pull_run(opened.host, note.project, survey, opened.folder, weights=False, listener=screen)
    except HalfstepError as error:
        pull = shell_command("pipeline pull {}", note.name)
        screen.note(f"the logs were not pulled ({error.message}); `{pull}` downloads them")


def describe_stop(name: str, survey: RunSurvey, was_alive: bool) -> str:
    """Return 'tiny-0123abcd was stopped at step 40 of 120; newest checkpoint: step 38'.

    A job that was queued is described as stopped before it began.
    """
    newest = newest_kept(survey)
    without = describe_no_checkpoint(survey, "it has no verified checkpoint")
    kept = f"newest checkpoint: step {newest}" if newest is not None else without
    job = job_outcome(survey)
    step = f" at step {job.step}" + (f" of {job.steps}" if job.steps else "") if job.step is not None else ""
    if was_alive and survey.result is not None and survey.result.stopped:
        return f"{name} was stopped{step if survey.has_begun else ' before it began'}; {kept}"
    if survey.state is JobState.RUNNING:
        return f"{name} still runs{step}; {kept}"
    return f"{name} is not running ({survey.state.value}{step}); {kept}"


def describe_restart(survey: RunSurvey, note: RunNote) -> str:
    """Return 'to resume: pipeline run ... --resume RUN', or 'to start again at step 0: ...' without a checkpoint.

    The command of a config may load a file that halfstep does not recognise as a checkpoint: `to start again` says so.
    If the script has saved such files, the text is 'to continue, if the script loads its own files: ...'.

    Without --resume, the command would start a new run if the inputs have changed since.
    """
    if newest_kept(survey) is None:
        if survey.own_files:
            return f"to continue, if the script loads its own files: {note.resume_command}"
        start = start_without_checkpoint("at step 0", own_command=note.own_command)
        return f"to start again {start}: {note.start_command}"
    return f"to resume: {note.resume_command}"


def judge_left(answer: StopAnswer, survey: RunSurvey, note: RunNote, *, was_alive: bool) -> tuple[Finding, ...]:
    """Return the findings for the processes and Slurm jobs of the run that the stop did not end."""
    return (
        *judge_unkillable(answer.left if was_alive else (), note.host),
        *(judge_still_running(answer.elsewhere, note) if survey.state is JobState.RUNNING else ()),
        *judge_slurm_left(answer.slurm_left, note.host),
    )


def judge_unkillable(left: tuple[int, ...], host: str) -> tuple[Finding, ...]:
    """Return one finding for all processes that survived SIGKILL."""
    if not left:
        return ()
    who, is_blocked = f"process {left[0]} has", "it is"
    if len(left) > 1:
        who, is_blocked = f"{len(left)} processes ({_numbers(left)}) have", "they are"
    message = f"{who} not ended after SIGKILL: {is_blocked} blocked in the driver or the file system"
    return (Finding("unkillable", Severity.ERROR, message, host, exit_code=ExitCode.BUSY),)


def _numbers(left: tuple[int, ...]) -> str:
    """Return '7, 8, 9', or the first NAMED numbers and how many more there are."""
    more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
    return ", ".join(map(str, left[:NAMED])) + more


def judge_still_running(elsewhere: str, note: RunNote) -> tuple[Finding, ...]:
    """Return a finding for a job that did not end. `elsewhere` is the machine or container that stop cannot reach."""
    message = f"{note.name} still runs: its processes did not end within the grace period and 40 s"
    hint = shell_command("pipeline stop --grace 0 {}", note.name)
    if elsewhere:
        message = f"{note.name} still runs: it has processes on another machine or in another container ({elsewhere})"
        hint = "add a host file for that machine or container, and stop the run there"
    return (Finding("not-stopped", Severity.ERROR, message, note.host, hint=hint, exit_code=ExitCode.BUSY),)


def judge_slurm_left(left: tuple[int, ...] | None, host: str) -> tuple[Finding, ...]:
    """Return one finding for all jobs that the command submitted to Slurm and that may still run."""
    listing = on_host("squeue --me", host=host)
    if left is None:
        message = "Slurm did not answer, so jobs that the command submitted to it may still run"
        return (Finding(SLURM_LEFT, Severity.WARNING, message, host, hint=listing),)
    if not left:
        return ()
    jobs, hint = f"job {left[0]} of the command is", on_host("scancel {}", str(left[0]), host=host)
    if len(left) > 1:
        jobs, hint = f"{len(left)} jobs of the command ({_numbers(left)}) are", listing
    message = f"Slurm has not confirmed that {jobs} cancelled"
    return (Finding(SLURM_LEFT, Severity.ERROR, message, host, hint=hint, exit_code=ExitCode.BUSY),)
