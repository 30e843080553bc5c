"""The runs a project remembers: a small note each, so that a run can be named, found again and asked about offline."""

from __future__ import annotations

import contextlib
import difflib
import hmac
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.config.find import find_project
from pipeline.messages.hints import complete_hint
from pipeline.messages.outcome import JobOutcome
from pipeline.records.consents import seal
from pipeline.records.files import locked, write_whole
from pipeline.records.layout import NOTE, Records, safe_name
from remote.errors import BadUsage
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobResult, JobState, Progress, RunSurvey
from remote.protocol.values import Malformed, decode, dumps, encode

SEAL = "seal"
AGAIN = "pipeline run --host HOST --config NAME   (as it was started: finds the run on its host, and remembers it)"
ENDED = (JobState.SUCCEEDED, JobState.FAILED, JobState.LOST)


@dataclass(frozen=True)
class RunNote:
    """What is remembered of a run. `state`, `step` and `seen_unix` are the last that was seen of its job.

    `given` are the words that started it: names, and what was set beside them. `start` counts the project's starts and
    resumes: the highest is the newest, whatever the clocks say. `name` names the run in this project, see Records.
    """

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
    given: tuple[str, ...] = ()
    start: int = 0
    name: str = ""

    @property
    def again(self) -> str:
        """What takes the run up again."""
        return complete_hint("pipeline run", self.host, self.config, self.given)


def write_note(records: Records, note: RunNote) -> None:
    """The run is remembered; an earlier note keeps its time of creation and its place among the starts."""
    with locked(records.runs_lock, "remember a run", sign=False, wait=True):
        _write(records, note, 0)


def write_start(records: Records, note: RunNote) -> None:
    """The same of a run that is started, resumed or joined now: it is the last of the project's starts."""
    with locked(records.runs_lock, "remember a start", sign=False, wait=True):
        _write(records, note, 1 + max((known.start for known in list_notes(records)), default=0))


def _write(records: Records, note: RunNote, start: int) -> None:
    folder = records.run(note.run, note.host)
    known = read_note(folder)
    if known is not None:
        note = replace(note, created_unix=known.created_unix)
        start = start or known.start
    _write_sealed(folder, replace(note, start=start, name=folder.name))


def read_note(folder: Path) -> RunNote | None:
    """The note in a run's folder; None where there is none that can be read, or it is another run's."""
    try:
        note = replace(decode(RunNote, json.loads((folder / NOTE).read_bytes())), name=folder.name)
    except (OSError, ValueError, Malformed):
        return None
    return note if folder.name in (note.run, f"{note.run}@{safe_name(note.host)}") else None


def is_own_note(folder: Path) -> bool:
    """The note in a run's folder was written by this user's halfstep; one that came with a project was not."""
    try:
        body = json.loads((folder / NOTE).read_bytes())
        kept = str(body.pop(SEAL, ""))
        return hmac.compare_digest(seal(dumps(body)).encode(), kept.encode())
    except (OSError, ValueError, AttributeError, TypeError):
        return False


def _write_sealed(folder: Path, note: RunNote) -> None:
    body = encode(note)
    with contextlib.suppress(OSError):  # unsealed where there is no configuration folder
        body[SEAL] = seal(dumps(body))
    write_whole(folder / NOTE, dumps(body))


def list_notes(records: Records) -> tuple[RunNote, ...]:
    """Every run of the project, the one that was started or resumed last first."""
    read = [read_note(folder) for folder in records.runs.iterdir()] if records.runs.is_dir() else []
    notes = [note for note in read if note is not None]
    return tuple(sorted(notes, key=lambda note: (note.start, note.created_unix), reverse=True))


def damaged_notes(records: Records) -> tuple[Path, ...]:
    """The notes that are there and cannot be read: their runs cannot be named."""
    paths = sorted(records.runs.glob(f"*/{NOTE}")) if records.runs.is_dir() else []
    return tuple(path for path in paths if read_note(path.parent) is None)


def judge_notes(records: Records) -> tuple[Finding, ...]:
    """A warning for each note that cannot be read."""
    return tuple(
        Finding(
            "damaged-note",
            Severity.WARNING,
            f"what is remembered of {path.parent.name} cannot be read",
            str(path),
            AGAIN,
        )
        for path in damaged_notes(records)
    )


def find_note(records: Records, run: str | None) -> RunNote:
    """The run of that name, the newest of that config, the only one that begins so, or the newest of all.

    Raises BadUsage naming the nearest.
    """
    notes = list_notes(records)
    damaged = next((path for path in damaged_notes(records) if path.parent.name == run or not (run or notes)), None)
    if damaged is not None:
        words = f"what this project remembers of {damaged.parent.name} cannot be read"
        raise BadUsage(words, where=str(damaged), hint=AGAIN)
    if not notes:
        raise BadUsage(
            "this project has no runs yet", where=str(records.root), hint="pipeline run --host HOST --config NAME"
        )
    if run is None:
        return notes[0]
    found = notes_named(notes, run)
    if len(found) > 1:
        words = f"{run!r} may be {', '.join(note.name for note in found)}"
        raise BadUsage(words, where="RUN", hint="pipeline list", instead=(run, found[0].name))
    if not found:
        near = difflib.get_close_matches(run, [note.name for note in notes], n=1, cutoff=0.4) or [notes[0].name]
        raise BadUsage(f"this project has no run {run!r}", where="RUN", hint="pipeline list", instead=(run, near[0]))
    return found[0]


def notes_named(notes: Sequence[RunNote], run: str) -> tuple[RunNote, ...]:
    """The run of that name, else the newest of that config, else those that begin so; `notes` are the newest first."""
    for found in ([n for n in notes if n.name == run], [n for n in notes if n.config == run]):
        if found:
            return (found[0],)
    return tuple(note for note in notes if run and note.name.startswith(run))


def artifacts_in(folder: Path) -> dict[str, str]:
    """What of the run of that folder came to this machine."""
    places = {"tensorboard": _curves_in(folder), "adapter": folder / "adapter", "report": folder / "report.html"}
    return {name: str(path) for name, path in places.items() if path.exists()}


def _curves_in(folder: Path) -> Path:
    """Where TensorBoard is pointed to: the usual folder, else the run's, where a script wrote to one of its own."""
    usual = folder / "tensorboard"
    own = not usual.exists() and any(folder.rglob("*tfevents*"))
    return folder if own else usual


def named_run(run: str | None, here: Path) -> tuple[RunNote, Records]:
    """The run of that name, or the one of the project here that was started or resumed last. Raises BadUsage."""
    records = Records(find_project(here))
    return find_note(records, run), records


def note_seen(folder: Path, run: RunSurvey) -> None:
    """The note in a run's folder says what was last seen of its job."""
    note_job(folder, run.state, run.progress, run.result)


def note_job(folder: Path, state: JobState, progress: Progress | None = None, result: JobResult | None = None) -> None:
    """The same of a job whose run was not looked at; what has ended and is known already is not written again."""
    note = read_note(folder)
    if note is None:
        return
    seen = replace(
        note,
        state=state,
        step=progress.step if progress else note.step,
        steps=progress.steps if progress else note.steps,
        loss=progress.loss if progress else note.loss,
        exit=result.exit if result else None,
        seen_unix=time.time(),
    )
    if state in ENDED and replace(seen, seen_unix=note.seen_unix) == note:
        return
    _write_sealed(folder, seen)


def job_last_seen(note: RunNote, now_unix: float) -> JobOutcome:
    """What was last seen of a run's job, with its age."""
    age = max(0.0, now_unix - note.seen_unix) if note.seen_unix else None
    return JobOutcome(
        note.state if note.seen_unix else JobState.ABSENT, note.step, note.steps, note.exit, note.loss, age
    )
