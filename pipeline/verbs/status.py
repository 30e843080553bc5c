"""`pipeline status`: show the progress or the outcome of a run, from local records if the host is unreachable."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from pipeline.hosts.open_run import UNREACHABLE, open_note, unreachable_warning
from pipeline.hosts.which_run import judge_others
from pipeline.judgements.job import judge_run, judge_watched
from pipeline.messages.outcome import Outcome, job_outcome
from pipeline.records.find_run import named_run
from pipeline.records.last_seen import job_last_seen
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, artifacts_in
from pipeline.show.screen import Screen
from pipeline.verbs.run_outcome import outcome_for
from remote.errors import HalfstepError
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobState, RunSurvey

SHOWN = 3


def status(run: str | None = None, as_json: bool = False) -> int:
    """Show the progress or the outcome of a run.

    The exit code is 0 if the host was reached, even if the run failed. If the host is unreachable, the last known state
    and its age are shown: an unreachable host does not mean that the job has ended.
    """
    screen = Screen(as_json=as_json)
    note, records = named_run(run, Path.cwd())
    try:
        with open_note(note, records, prompter=None if as_json else screen, keep=False) as opened:
            survey, training = opened.look()
        outcome = _from_host(note, records, survey, judge_others("status", run, note, survey.state, training))
    except HalfstepError as error:
        if error.exit_code not in UNREACHABLE:
            raise
        outcome = _from_records(note, records, error)
    screen.heading(f"{note.name} on {note.host}")
    if outcome.job:
        screen.job(outcome.job)
    for line in describe_rewritten(note):
        screen.note(line)
    screen.closing(outcome)
    return outcome.exit_code


def describe_rewritten(note: RunNote) -> tuple[str, ...]:
    """Return one line with the names of the files that fixers rewrote on the host, or () if there are no such files."""
    if not note.rewritten:
        return ()
    more = f" and {len(note.rewritten) - SHOWN} more" if len(note.rewritten) > SHOWN else ""
    files = f"{', '.join(note.rewritten[:SHOWN])}{more}"
    show = note.completed("pipeline fix --diff")
    return (f"{'rewritten':<13}{files}, in the copy on the host: {show}",)


def _from_host(note: RunNote, records: Records, run: RunSurvey, others: tuple[Finding, ...]) -> Outcome:
    ended = (
        ()
        if run.state is JobState.RUNNING
        else judge_run(run, note.name, note.resume_command if note.evaluates else "").findings
    )
    findings = [replace(finding, severity=Severity.WARNING) for finding in ended]
    if run.stalled:
        findings.append(Finding("stalled", Severity.WARNING, "no optimizer step for a long time", note.name))
    findings += [Finding("job-warning", Severity.WARNING, warning, note.name) for warning in run.warnings]
    findings += judge_watched(note.name, run.watched)
    return replace(
        outcome_for("status", note),
        findings=(*others, *findings),
        job=job_outcome(run),
        artifacts=artifacts_in(records.folder_named(note.name)),
        more={
            **({"cures": list(note.cures)} if note.cures else {}),
            **({"rewritten": list(note.rewritten)} if note.rewritten else {}),
        },
    )


def _from_records(note: RunNote, records: Records, error: HalfstepError) -> Outcome:
    return replace(
        outcome_for("status", note),
        exit_code=error.exit_code,
        findings=(unreachable_warning(note, error, "the last known state is shown"),),
        job=job_last_seen(note, time.time()),
        artifacts=artifacts_in(records.folder_named(note.name)),
    )
