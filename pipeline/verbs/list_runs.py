"""`pipeline list`: list the runs of this project from local records; no host is contacted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pipeline.config.find import find_project
from pipeline.messages.outcome import Outcome
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, job_last_seen, judge_notes, list_notes
from pipeline.show.screen import Screen
from remote.protocol.quantities import duration


def list_runs(as_json: bool = False) -> int:
    """List every run as last seen, the last started first; `pipeline status RUN` contacts its host."""
    screen = Screen(as_json=as_json)
    now = time.time()
    records = Records(find_project(Path.cwd()))
    notes, damaged = list_notes(records), judge_notes(records)
    rows = []
    for note in notes:
        job = job_last_seen(note, now)
        step = f"{job.step}/{job.steps}" if job.steps else str(job.step or "")
        seen = job.state.value if note.seen_unix else "not seen yet"
        rows.append((note.name, note.host, seen, step, duration(now - note.created_unix) + " ago"))
    if not as_json:
        if not rows and not damaged:
            screen.note("this project has no runs yet")
            return 0
        screen.table(("run", "host", "last seen", "step", "started"), rows)
    screen.closing(Outcome("list", findings=damaged, more={"runs": [_as_json(note) for note in notes]}))
    return 0


def _as_json(note: RunNote) -> dict[str, Any]:
    """Encode a run. The state is left out if it is unknown because the start of its job was interrupted."""
    seen = {"state": note.state.value} if note.seen_unix else {}
    return {"run": note.name, "host": note.host, "config": note.config, **seen, "step": note.step}
