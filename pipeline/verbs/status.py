"""`pipeline status`: what runs where, how far, how it ended; from memory, with its age, where no host answers."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from pipeline.hosts.open_run import OUT_OF_REACH, open_note, out_of_reach
from pipeline.hosts.which_run import judge_others
from pipeline.judgements.job import judge_run, judge_watched
from pipeline.messages.outcome import Outcome, job_outcome
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, artifacts_in, job_last_seen, named_run
from pipeline.show.screen import Screen
from remote.errors import HalfstepError
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobState, RunSurvey


def status(run: str | None = None, as_json: bool = False) -> int:
    """How far a run is and how it ended; exit 0 where that could be asked, however it ended.

    A host out of reach is told with what was last seen, never taken for dead.
    """
    screen = Screen(as_json=as_json)
    note, records = named_run(run, Path.cwd())
    try:
        with open_note(note, records, ask=None if as_json else screen, keep=False) as opened:
            survey, training = opened.look()
        outcome = _from_host(note, records, survey, judge_others("status", run, note, survey.state, training))
    except HalfstepError as error:
        if error.exit_code not in OUT_OF_REACH:
            raise
        outcome = _from_records(note, records, error)
    screen.heading(f"{note.name} on {note.host}")
    if outcome.job:
        screen.job(outcome.job)
    screen.closing(outcome)
    return outcome.exit_code


def _from_host(note: RunNote, records: Records, run: RunSurvey, others: tuple[Finding, ...]) -> Outcome:
    ended = () if run.state is JobState.RUNNING else judge_run(run, note.name).findings
    findings = [replace(finding, severity=Severity.WARNING) for finding in ended]
    if run.stalled:
        findings.append(Finding("stalled", Severity.WARNING, "no new optimizer step for long; not ended", note.name))
    findings += [Finding("job-warning", Severity.WARNING, warning, note.name) for warning in run.warnings]
    findings += judge_watched(note.name, run.watched)
    return Outcome(
        "status",
        host=note.host,
        config=note.config,
        given=note.given,
        run=note.name,
        findings=(*others, *findings),
        job=job_outcome(run),
        artifacts=artifacts_in(records.folder_named(note.name)),
        more={"cures": list(note.cures)} if note.cures else {},
    )


def _from_records(note: RunNote, records: Records, error: HalfstepError) -> Outcome:
    return Outcome(
        "status",
        error.exit_code,
        host=note.host,
        config=note.config,
        given=note.given,
        run=note.name,
        findings=(out_of_reach(note, error, "this is what was last seen"),),
        job=job_last_seen(note, time.time()),
        artifacts=artifacts_in(records.folder_named(note.name)),
    )
