"""`pipeline wait`: wait until a run's job has ended. The exit code shows how the job ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from pipeline.hosts.follow import follow_to_end
from pipeline.hosts.open_run import OpenRun, open_run
from pipeline.hosts.which_run import judge_others
from pipeline.judgements.job import judge_run, judge_watched, stopped_as_warnings
from pipeline.messages.outcome import job_outcome
from pipeline.records.runs import artifacts_in
from pipeline.show.screen import Screen
from pipeline.verbs.run_outcome import outcome_for
from remote.host import garbled
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobState, RunSurvey

FOLLOWED = 3
"""How often a job is followed whose host reports its end, and then that the job is running."""
MOST_JOBS = 1000
"""The largest number of jobs of one run that are followed one after another."""


def wait(run: str | None = None, as_json: bool = False) -> int:
    """Wait until the job ends. The exit codes are those of docs/exit-codes.md."""
    return wait_for(run, Screen(as_json=as_json), "wait")


def wait_for(run: str | None, screen: Screen, verb: str) -> int:
    """Wait for the run's job to end, show how the job ended, and return the exit code. `verb` is the user's command."""
    with screen, open_run(run, Path.cwd(), prompter=None if screen.as_json else screen) as opened:
        note = opened.note
        survey, training = opened.look()
        others = judge_others(verb, run, note, survey.state, training)
        survey = follow_jobs(opened, survey, screen)
    ending = judge_run(survey, note.name, note.resume_command if note.evaluates else "").findings
    findings = stopped_as_warnings(ending)
    outcome = replace(
        outcome_for(verb, note),
        exit_code=exit_code_of(findings, ExitCode.TRAINING),
        findings=(*findings, *others, *judge_watched(note.name, survey.watched)),
        job=job_outcome(survey),
        artifacts=artifacts_in(opened.folder),
    )
    if outcome.job:
        screen.job(outcome.job)
    screen.closing(outcome)
    return outcome.exit_code


def follow_jobs(opened: OpenRun, survey: RunSurvey, screen: Screen) -> RunSurvey:
    """Follow the run's jobs until none is running, and return the last survey.

    Raises Garbled if the host repeatedly reports the end of a job, and then that the same job is running.
    """
    followed: Counter[int] = Counter()
    while survey.state is JobState.RUNNING:
        followed[survey.job] += 1
        if followed[survey.job] > FOLLOWED or len(followed) > MOST_JOBS:
            raise garbled(opened.host.name, f"the end of job {survey.job}, and then that the job is running")
        screen.stage_started(opened.note.name)
        follow_to_end(opened.host, opened.note.project, survey.run, screen, opened.folder)
        survey = opened.survey()
    return survey
