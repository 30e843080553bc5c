"""The runs a project remembers: a small note each, so that a run can be named, found again and asked about offline."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.files import write_whole
from pipeline.memory import Memory
from remote.errors import BadUsage
from remote.protocol.jobs import JobState
from remote.protocol.values import Malformed, decode, dumps

NOTE = "run.json"


@dataclass(frozen=True)
class RunNote:
    """What is remembered of a run. `state`, `step` and `seen_unix` are the last that was seen of its job."""

    run: str
    host: str
    config: str
    project: str
    created_unix: float
    host_config: dict[str, Any] = field(default_factory=dict)
    state: JobState = JobState.ABSENT
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    exit: int | None = None
    seen_unix: float = 0.0
    cures: tuple[str, ...] = ()


def write_note(memory: Memory, note: RunNote) -> None:
    """The run is remembered; an earlier note keeps its time of creation."""
    known = read_note(memory.run(note.run))
    if known is not None:
        note = replace(note, created_unix=known.created_unix)
    write_whole(memory.run(note.run) / NOTE, dumps(note))


def read_note(folder: Path) -> RunNote | None:
    """The note in a run's folder; None where there is none that can be read."""
    try:
        return decode(RunNote, json.loads((folder / NOTE).read_bytes()))
    except (OSError, ValueError, Malformed):
        return None


def list_notes(memory: Memory) -> tuple[RunNote, ...]:
    """Every run of the project, the newest first."""
    notes = [read_note(folder) for folder in memory.runs.iterdir()] if memory.runs.is_dir() else []
    return tuple(sorted((n for n in notes if n is not None), key=lambda note: note.created_unix, reverse=True))


def find_note(memory: Memory, run: str | None) -> RunNote:
    """The run of that id, or the newest. Raises BadUsage naming the nearest."""
    notes = list_notes(memory)
    if not notes:
        raise BadUsage(
            "this project has no runs yet", where=str(memory.root), hint="pipeline run --host HOST --config NAME"
        )
    if run is None:
        return notes[0]
    for note in notes:
        if note.run == run:
            return note
    names = [note.run for note in notes]
    near = difflib.get_close_matches(run, names, n=1, cutoff=0.4) or names[:1]
    raise BadUsage(f"this project has no run {run!r}", where="RUN", hint=f"pipeline status {near[0]}")


def artifacts_of(memory: Memory, run: str) -> dict[str, str]:
    """What of a run lies here."""
    folder = memory.run(run)
    places = {"tensorboard": folder / "tensorboard", "adapter": folder / "adapter", "report": folder / "report.html"}
    return {name: str(path) for name, path in places.items() if path.exists()}
