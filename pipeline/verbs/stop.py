"""`pipeline stop`: end a run's job and every process of it, with time to save; its checkpoint stays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.hosts.open_run import open_run
from pipeline.messages.outcome import Outcome, job_outcome
from pipeline.show.screen import Screen
from pipeline.verbs.options import AsJson, Run
from remote.jobs import stop_job
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobState, RunSurvey

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def stop(
    run: Run = None,
    grace: Annotated[float | None, typer.Option(min=0, help="seconds to save in; left out: the run's own")] = None,
    as_json: AsJson = False,
) -> int:
    """End the job and every process it started; `pipeline run` resumes from its checkpoint."""
    screen = Screen(as_json=as_json)
    with open_run(run, Path.cwd(), ask=None if as_json else screen) as opened:
        survey = opened.survey()
        left: tuple[int, ...] = ()
        if survey.state is JobState.RUNNING or survey.orphans:
            screen.progress(f"stopping {survey.run}")
            left = stop_job(opened.host, opened.note.project, survey.run, grace_s=grace).left
            survey = opened.survey()
    screen.note(_ended(survey))
    findings = tuple(_unkillable(pid, opened.note.host) for pid in left)
    outcome = Outcome(
        "stop",
        ExitCode.BUSY if findings else ExitCode.OK,
        host=opened.note.host,
        config=opened.note.config,
        run=survey.run,
        findings=findings,
        job=job_outcome(survey),
    )
    screen.closing(outcome)
    return outcome.exit_code


def _ended(survey: RunSurvey) -> str:
    newest = max((checkpoint.step for checkpoint in survey.checkpoints if not checkpoint.problem), default=None)
    kept = f"newest checkpoint: step {newest}" if newest is not None else "it has no checkpoint"
    return f"{survey.run} is not running ({survey.state.value}); {kept}"


def _unkillable(pid: int, host: str) -> Finding:
    words = f"process {pid} does not end, even killed: it is stuck in the driver or the file system"
    return Finding("unkillable", Severity.ERROR, words, host, exit_code=ExitCode.BUSY)
