"""`pipeline report`: write a run's HTML report from local data; no host is contacted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pipeline.records.runs import artifacts_in, job_last_seen, named_run
from pipeline.report.saved import is_reported, render_saved_report
from pipeline.show.screen import Screen
from pipeline.verbs.run_outcome import outcome_for
from remote.errors import BadUsage


def report(run: str | None = None, as_json: bool = False) -> int:
    """Write the run's page: stages, fixes, proof, curves, cures."""
    screen = Screen(as_json=as_json)
    note, records = named_run(run, Path.cwd(), trained=True)
    folder = records.folder_named(note.name)
    if not is_reported(folder):
        raise BadUsage(
            f"{note.name} has no report yet",
            where=str(folder),
            hint=note.again,
        )
    render_saved_report(folder)
    screen.closing(
        replace(
            outcome_for("report", note),
            job=job_last_seen(note, note.seen_unix),
            artifacts=artifacts_in(folder),
        )
    )
    return 0
