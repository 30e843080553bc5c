"""The recorded runs of a project. Each run has a record, a RunNote, with which it can be listed and found offline."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.config.find import find_project
from pipeline.messages.hints import complete_hint, override_arguments, overrides_in
from pipeline.records.files import RUN_NAME, locked
from pipeline.records.layout import NOTE, Records, safe_name
from pipeline.records.signed import read_record, write_record
from remote.errors import BadUsage
from remote.protocol.evaluation import ANSWERS
from remote.protocol.findings import Finding
from remote.protocol.gauges import GpuUse
from remote.protocol.jobs import JobState
from remote.protocol.layout import GPU_EVENTS
from remote.protocol.values import Malformed, decode, encode

START_AGAIN = "pipeline run --host HOST --config NAME   (the original host and config; the run is found on the host)"
VERBS = ("evaluate", "merge", "merge --dequantize")
PROGRESS_FIELDS = ("step", "steps", "loss", "best_loss", "first_loss", "elapsed_s", "losses", "loss_steps")


@dataclass(frozen=True)
class RunNote:
    """The record of a run. `state`, `step` and `seen_unix` describe the last known state of its job.

    `given` are the options that started the run. `start` numbers the project's starts and resumes, so that the newest
    run has the highest number. `name` is the run's name in this project, see Records. `evaluates` is the name of the
    run whose adapter an evaluation evaluates, or the path of the adapter; it is "" for a training run. `verb` is the
    command that started the evaluation. `varied` are the overrides that distinguish the runs of one command. `job` is
    the number of the newest job. The losses and `elapsed_s` are those of all jobs, and `earlier_s` is the time of the
    jobs before the newest one. `waits` is the reason why the job is queued, or "". `rewritten` are the files on the
    host that fixers had changed when the run was started. `own` is True if this user wrote the record, according to the
    record's HMAC. `disk_full` is True if the job failed and its file system had no space left. `reason` says how the
    job ended, in the words of the host. `secrets` are the names of the job's secrets, and `secret_marks` the HMACs of
    the values that they had in the commands that started the run or attached to it.
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
    stopped: bool = False
    preempted: bool = False
    seen_unix: float = 0.0
    cures: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    start: int = 0
    name: str = ""
    best_loss: float | None = None
    started_unix: float | None = None
    elapsed_s: float | None = None
    eta_s: float | None = None
    gpus: tuple[GpuUse, ...] = ()
    evaluates: str = ""
    varied: tuple[str, ...] = ()
    verb: str = "evaluate"
    job: int = 0
    waits: str = ""
    rewritten: tuple[str, ...] = ()
    losses: tuple[float, ...] = ()
    loss_steps: tuple[int, ...] = ()
    first_loss: float | None = None
    earlier_s: float = 0.0
    own: bool = True
    disk_full: bool = False
    reason: str = ""
    secrets: tuple[str, ...] = ()
    secret_marks: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def resume_command(self) -> str:
        """The command that resumes the run, even if its inputs have changed since."""
        return self.start_command if self.evaluates else f"{self.start_command} --resume {self.name}"

    @property
    def start_command(self) -> str:
        """The command that started the run. With changed inputs, the command starts a new run."""
        if self.evaluates:
            own = [word for word in overrides_in(self.given) if word.startswith("evaluation.")]
            words = ["--adapter", self.evaluates, *self.given] if "/" in self.evaluates else [self.evaluates]
            return shlex.join(
                ["pipeline", *self.verb.split(), *words, *override_arguments(own if len(words) == 1 else ())]
            )
        return complete_hint("pipeline run", self.host, self.config, self.given)


def write_note(records: Records, note: RunNote) -> None:
    """Write the run's record. The creation time and the start count of an earlier record are kept."""
    with locked(records.runs_lock, "record a run", sign=False, wait=True):
        _write(records, note, 0)


def write_start(records: Records, note: RunNote) -> None:
    """Record the run as the one that was started, resumed or reattached to last in this project."""
    with locked(records.runs_lock, "record a start", sign=False, wait=True):
        _write(records, note, 1 + max((known.start for known in list_notes(records)), default=0))


def _write(records: Records, note: RunNote, start: int) -> None:
    folder = records.run(note.run, note.host)
    known = read_note(folder)
    if known is not None:
        marks = {name: (*known.secret_marks.get(name, ()), *new) for name, new in note.secret_marks.items()}
        marks = {name: tuple(dict.fromkeys(each)) for name, each in marks.items()}
        note = replace(note, created_unix=known.created_unix, secret_marks=known.secret_marks | marks)
        if note.step is None:  # keep the progress of the earlier job until the new job has its first step
            note = replace(note, **{name: getattr(known, name) for name in PROGRESS_FIELDS})
        start = start or known.start
    note = replace(note, start=start, name=folder.name)
    write_record(folder / NOTE, encode(note), signed=note.own)


def read_note(folder: Path) -> RunNote | None:
    """Return the note in a run's folder, or None if the note cannot be read or belongs to another run.

    A cloned project may contain notes that this user did not write. The options of such a note are dropped, because
    printed commands would repeat them, and the note counts as the oldest.
    """
    try:
        body, own = read_record(folder / NOTE)
        note = replace(decode(RunNote, body), name=folder.name, own=own)
    except (OSError, ValueError, Malformed):
        return None
    if note.stopped:  # older versions recorded a stopped job as failed
        note = replace(note, state=JobState.STOPPED)
    if not own:
        note = replace(note, given=(), varied=(), start=0)
    return note if _has_usable_names(note) else None


def _has_usable_names(note: RunNote) -> bool:
    """Return True if the names in the note are valid, so that printed commands can repeat them."""
    runs = (note.name, *([note.evaluates] if note.evaluates and "/" not in note.evaluates else []))
    of_folder = note.name in (note.run, f"{note.run}@{safe_name(note.host)}")
    return of_folder and note.verb in VERBS and all(map(RUN_NAME.fullmatch, (*runs, note.project)))


def list_notes(records: Records) -> tuple[RunNote, ...]:
    """Return all runs of the project. The run that was started or resumed last is the first."""
    folders = records.runs.iterdir() if records.runs.is_dir() else ()
    notes = filter(None, map(read_note, folders))
    return tuple(sorted(notes, key=lambda note: (note.start, note.created_unix), reverse=True))


def damaged_notes(records: Records) -> tuple[Path, ...]:
    """Return the paths of the records that cannot be read."""
    paths = sorted(records.runs.glob(f"*/{NOTE}")) if records.runs.is_dir() else []
    return tuple(path for path in paths if read_note(path.parent) is None)


def judge_notes(records: Records) -> tuple[Finding, ...]:
    """Return a warning for each record that cannot be read."""
    return tuple(
        Finding.warning("damaged-note", f"the record of {path.parent.name} cannot be read", str(path), START_AGAIN)
        for path in damaged_notes(records)
    )


def find_note(records: Records, run: str | None, *, trained: bool = False) -> RunNote:
    """Return the run with the name `run`, else the newest run of the config `run`, else the only run with the prefix
    `run`. Without `run`, return the training run that was started or resumed last. With `trained`, evaluations and
    merges are never returned. Raises BadUsage with the most similar name.
    """
    trained = trained or run is None
    notes = tuple(note for note in list_notes(records) if not (trained and note.evaluates))
    _refuse_damaged(records, run, notes)
    if not notes:
        hint = "pipeline run --host HOST --config NAME"
        raise BadUsage("this project has no training runs yet", where=str(records.root), hint=hint)
    if run is None:
        return notes[0]
    found = notes_named(notes, run)
    if len(found) > 1:
        message = f"{run!r} is ambiguous: {', '.join(note.name for note in found)}"
        raise BadUsage(message, where="RUN", hint="pipeline list", instead=(run, found[0].name))
    if not found:
        near = difflib.get_close_matches(run, [note.name for note in notes], n=1, cutoff=0.6)
        message, instead = f"this project has no run {run!r}", (run, near[0]) if near else None
        raise BadUsage(message, where="RUN", hint="pipeline list", instead=instead)
    return found[0]


def _refuse_damaged(records: Records, run: str | None, notes: Sequence[RunNote]) -> None:
    """Raise BadUsage if the record of the run `run`, or the only record, cannot be read."""
    for path in damaged_notes(records):
        if path.parent.name == run or not (run or notes):
            raise BadUsage(f"the record of {path.parent.name} cannot be read", where=str(path), hint=START_AGAIN)


def notes_named(notes: Sequence[RunNote], run: str) -> tuple[RunNote, ...]:
    """Return the run with the name `run`, else the newest run of the config `run`, else all runs with the prefix `run`.

    `notes` must be sorted, the newest first.
    """
    of_config = [note for note in notes if note.config == run and not note.evaluates]
    named = [note for note in notes if note.name == run] or of_config
    if named:
        return (named[0],)
    return tuple(note for note in notes if run and note.name.startswith(run))


def artifacts_in(folder: Path) -> dict[str, str]:
    """Return the paths of the local files of a run by kind: tensorboard, adapter, answers, report."""
    places = {
        "tensorboard": _curves_in(folder),
        "adapter": folder / "adapter",
        "answers": folder / ANSWERS,
        "report": folder / "report.html",
    }
    return {name: str(path) for name, path in places.items() if path.exists()}


def _curves_in(folder: Path) -> Path:
    """Return the folder for TensorBoard: `tensorboard/`, or the run's folder if the event files are elsewhere in it."""
    usual = folder / "tensorboard"
    of_gpus = usual / GPU_EVENTS
    written = [path for path in folder.rglob("*tfevents*") if path.parent != of_gpus]
    own = bool(written) and not any(path.is_relative_to(usual) for path in written)
    return folder if own else usual


def named_run(run: str | None, cwd: Path, *, trained: bool = False) -> tuple[RunNote, Records]:
    """Return the result of `find_note`, and the project's records. Raises BadUsage."""
    records = Records(find_project(cwd))
    return find_note(records, run, trained=trained), records
