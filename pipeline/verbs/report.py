"""`pipeline report`: one self-contained HTML file of a run; nothing is asked of any host."""

from __future__ import annotations

from pathlib import Path

from pipeline.messages.outcome import Outcome
from pipeline.records.runs import artifacts_in, job_last_seen, named_run
from pipeline.report.saved import draw_report, is_reported
from pipeline.show.screen import Screen
from remote.errors import BadUsage


def report(run: str | None = None, as_json: bool = False) -> int:
    """Draw the run's page from what is here: stages, fixes, proofs, curves, cures."""
    screen = Screen(as_json=as_json)
    note, records = named_run(run, Path.cwd())
    folder = records.folder_named(note.name)
    if not is_reported(folder):
        raise BadUsage(
            f"{note.name} has nothing to report yet",
            where=str(folder),
            hint=note.again,
        )
    draw_report(folder)
    screen.closing(
        Outcome(
            "report",
            host=note.host,
            config=note.config,
            given=note.given,
            run=note.name,
            job=job_last_seen(note, note.seen_unix),
            artifacts=artifacts_in(folder),
        )
    )
    return 0
