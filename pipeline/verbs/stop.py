"""`pipeline stop`: end a run's job and every process of it, with time to save; its checkpoint stays."""

from __future__ import annotations

from pathlib import Path

from pipeline.hosts.open_run import open_run
from pipeline.hosts.which_run import as_errors, judge_others, others_elsewhere
from pipeline.judgements.job import newest_kept
from pipeline.messages.outcome import Outcome, job_outcome
from pipeline.show.screen import Screen
from remote.operations.jobs import stop_job
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity, exit_code_of
from remote.protocol.jobs import JobState, RunSurvey


def stop(run: str | None = None, grace: float | None = None, as_json: bool = False) -> int:
    """End the job and every process it started; `pipeline run` resumes from its checkpoint."""
    screen = Screen(as_json=as_json)
    with open_run(run, Path.cwd(), ask=None if as_json else screen) as opened:
        note = opened.note
        survey, training = opened.look()
        left: tuple[int, ...] = ()
        was_alive = survey.state is JobState.RUNNING
        others = judge_others("stop", run, note, survey.state, training)
        if was_alive:
            screen.progress(f"stopping {note.name}")
            left = stop_job(opened.host, note.project, survey.run, grace_s=grace).left
            survey = opened.survey()
    if not was_alive:
        others += others_elsewhere("stop", run, note, opened.records, None if as_json else screen)
    screen.note(in_words(note.name, survey, was_alive))
    findings = (*(_unkillable(pid, note.host) for pid in left), *as_errors(others))
    outcome = Outcome(
        "stop",
        exit_code_of(findings, ExitCode.BUSY),
        host=note.host,
        config=note.config,
        given=note.given,
        run=note.name,
        findings=findings,
        job=job_outcome(survey),
    )
    screen.closing(outcome)
    return outcome.exit_code


def in_words(name: str, survey: RunSurvey, was_alive: bool) -> str:
    """'tiny-0123abcd was stopped at step 40 of 120; newest checkpoint: step 38'."""
    newest = newest_kept(survey)
    kept = f"newest checkpoint: step {newest}" if newest is not None else "it has no checkpoint"
    job = job_outcome(survey)
    step = f" at step {job.step}" + (f" of {job.steps}" if job.steps else "") if job.step is not None else ""
    if was_alive and survey.result is not None and survey.result.stopped:
        return f"{name} was stopped{step}; {kept}"
    return f"{name} is not running ({survey.state.value}{step}); {kept}"


def _unkillable(pid: int, host: str) -> Finding:
    words = f"process {pid} does not end, even killed: it is stuck in the driver or the file system"
    return Finding("unkillable", Severity.ERROR, words, host, exit_code=ExitCode.BUSY)
