"""`pipeline list`: list the runs of this project from local records, without a connection to a host."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.messages.as_json import job_to_json
from pipeline.messages.hints import overrides_in
from pipeline.messages.outcome import JobOutcome, Outcome
from pipeline.records.find_run import began_unix
from pipeline.records.last_seen import job_last_seen
from pipeline.records.layout import Records
from pipeline.records.projects import project_records
from pipeline.records.runs import RunNote, judge_notes, recorded_runs
from pipeline.show.screen import Screen
from pipeline.show.training import clock
from remote.protocol.findings import Finding
from remote.protocol.jobs import JobState
from remote.protocol.loss import loss_text
from remote.protocol.quantities import duration

HEADINGS = ("run", "project", "set", "host", "last seen", "step", "loss", "best", "elapsed", "ETA", "GPU", "started")
OLD_S = 60.0
"""A younger record of a running job is probably being updated by another command."""
LONG_S = 5_400.0
"""Longer ages are rounded to hours, so that the table fits a terminal of 80 columns."""
OPTIONAL = ("GPU", "set", "project", "best", "elapsed", "loss", "ETA")


def list_runs(as_json: bool = False) -> int:
    """List every run with its last known state, the newest first. `pipeline status RUN` queries the host instead."""
    screen = Screen(as_json=as_json)
    now = time.time()
    found, damaged = _recorded(project_records(Path.cwd()))
    rows = [_row(note, project, now) for note, project in found]
    if not as_json:
        if not rows and not damaged:
            screen.note("this project has no runs yet")
            return 0
        headings, rows = _without_empty_columns(rows)
        screen.table(headings, rows, optional=OPTIONAL)
    screen.closing(
        Outcome("list", findings=damaged, more={"runs": [_as_json(note, project) for note, project in found]})
    )
    return 0


def _recorded(every: Sequence[Records]) -> tuple[list[tuple[RunNote, str]], tuple[Finding, ...]]:
    """Return each run with its folder in the project, or "" for the project itself, and warnings for damaged records.

    The newest run is the first.
    """
    recorded = [(recorded_runs(records), _folder_in(every[0], records)) for records in every]
    found = [(note, project) for runs, project in recorded for note in runs.notes]
    if len(every) > 1:  # the numbers of the starts belong to one folder
        found.sort(key=lambda each: (each[0].own, began_unix(each[0])), reverse=True)
    return found, tuple(finding for runs, _ in recorded for finding in judge_notes(runs))


def _folder_in(project: Records, records: Records) -> str:
    return "" if records == project else str(records.root.relative_to(project.root))


def _without_empty_columns(rows: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the headings and rows without the optional columns that are empty in every row."""
    kept = [at for at, heading in enumerate(HEADINGS) if heading not in OPTIONAL or any(row[at] for row in rows)]
    return tuple(HEADINGS[at] for at in kept), [tuple(row[at] for at in kept) for row in rows]


def _settings(note: RunNote) -> tuple[str, ...]:
    """Return the overrides of the run: those that distinguish it from the other runs of its command come first."""
    words = [word for word in overrides_in(note.given) if word != "--set"]
    varied = {each.partition("=")[0] for each in note.varied}
    return (*note.varied, *(word for word in words if word.partition("=")[0] not in varied))


def _row(note: RunNote, project: str, now: float) -> tuple[str, ...]:
    job = job_last_seen(note, now)
    return (
        note.name,
        project,
        " ".join(_settings(note)),
        note.host,
        _last_seen(job) if note.seen_unix else "not seen yet",
        f"{job.step}/{job.steps}" if job.steps else str(job.step or ""),
        loss_text(job.loss) if job.loss is not None else "",
        loss_text(job.best_loss) if job.best_loss is not None else "",
        clock(job.elapsed_s) if job.elapsed_s is not None else "",
        clock(job.eta_s) if job.eta_s else "",
        ", ".join(f"{gpu.utilization_percent:.0f} %" for gpu in job.gpus if gpu.utilization_percent is not None),
        duration(now - note.created_unix) + " ago",
    )


def _last_seen(job: JobOutcome) -> str:
    """Return the state, and the age of a state that may have changed since it was recorded: 'running 16 min ago'."""
    age_s = job.age_s or 0.0
    is_old = job.state is JobState.RUNNING and age_s >= OLD_S
    age = duration(age_s) if age_s < LONG_S else f"{age_s / 3600:.0f} h"
    return f"{job.shown_state} {age} ago" if is_old else job.shown_state


def _as_json(note: RunNote, project: str) -> dict[str, Any]:
    """Encode a run. If the start of the job was interrupted, the state is unknown and omitted."""
    job = job_to_json(job_last_seen(note, time.time()))
    seen = {} if note.seen_unix else {"state": None}
    fields = {**job, **seen, "exit": None, "age_s": None, "seen_unix": note.seen_unix or None}
    known = {name: value for name, value in fields.items() if value is not None}
    settings = {"set": list(settings)} if (settings := _settings(note)) else {}
    folder = {"project": project} if project else {}
    return {"run": note.name, **folder, **settings, "host": note.host, "config": note.config, **known}
