"""Notes of runs that a cloned project contains."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from pipeline.records.layout import NOTE, Records
from pipeline.records.runs import RunNote, write_note
from remote.project.identity import project_of

RUN = "plain-0123abcd"


def note(run: str = "plain-0123abcd", host: dict[str, object] | None = None) -> RunNote:
    return RunNote(run, "rig", "plain", "p-1", 1.0, host or {"host": "rig.example", "port": 2222})


def brought(records: Records, folder: str, one: RunNote) -> Path:
    """Return a note in a cloned project, written by halfstep on another machine."""
    one = replace(one, project=one.project if one.project != "p-1" else project_of(records.root))
    write_note(Records(records.root / "theirs"), one)
    body = json.loads((Records(records.root / "theirs").run(one.run, one.host) / NOTE).read_bytes())
    place = records.root / ".halfstep/runs" / folder
    place.mkdir(parents=True)
    (place / NOTE).write_text(json.dumps({**body, "seal": "0" * 64}))
    return place
