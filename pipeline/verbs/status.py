"""`pipeline status`: what runs where, how far, how it ended; from memory, with its age, where no host answers."""

from __future__ import annotations

import time
from pathlib import Path

import typer

from pipeline.afar import OUT_OF_REACH, job_from_host, job_from_memory, remembered, run_afar
from pipeline.memory import Memory
from pipeline.outcome import Outcome
from pipeline.runs import RunNote, artifacts_of
from pipeline.show.screen import Screen
from pipeline.stages.ending import judge_run
from pipeline.verbs.options import AsJson, Run
from remote.errors import HalfstepError
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobState, RunSurvey

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def status(run: Run = None, as_json: AsJson = False) -> int:
    """How far a run is and how it ended. A host out of reach is told with what was last seen, never taken for dead."""
    screen = Screen(as_json=as_json)
    note, memory = remembered(run, Path.cwd())
    try:
        with run_afar(note.run, Path.cwd(), ask=None if as_json else screen, keep=False) as afar:
            outcome = _from_host(note, memory, afar.survey())
    except HalfstepError as error:
        if error.exit_code not in OUT_OF_REACH:
            raise
        outcome = _from_memory(note, memory, error)
    screen.heading(f"{note.run} on {note.host}")
    if outcome.job:
        screen.job(outcome.job)
    screen.closing(outcome)
    return outcome.exit_code


def _from_host(note: RunNote, memory: Memory, run: RunSurvey) -> Outcome:
    findings = [*([] if run.state is JobState.RUNNING else judge_run(run, note.run).findings)]
    if run.stalled:
        findings.append(Finding("stalled", Severity.WARNING, "no new optimizer step for long; not ended", note.run))
    findings += [Finding("job-warning", Severity.WARNING, warning, note.run) for warning in run.warnings]
    return Outcome(
        "status",
        host=note.host,
        config=note.config,
        run=note.run,
        findings=tuple(findings),
        job=job_from_host(run),
        artifacts=artifacts_of(memory, note.run),
        more={"cures": list(note.cures)} if note.cures else {},
    )


def _from_memory(note: RunNote, memory: Memory, error: HalfstepError) -> Outcome:
    words = f"{note.host} is out of reach ({error.message}); this is what was last seen"
    return Outcome(
        "status",
        error.exit_code,
        host=note.host,
        config=note.config,
        run=note.run,
        findings=(Finding("unreachable", Severity.WARNING, words, note.host, error.hint, error.exit_code),),
        job=job_from_memory(note, time.time()),
        artifacts=artifacts_of(memory, note.run),
    )
