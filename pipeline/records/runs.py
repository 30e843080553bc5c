"""The recorded runs of a project. Each run has a record, a RunNote, with which it can be listed and found offline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.messages.hints import complete_hint, override_arguments, overrides_in
from pipeline.records.files import RUN_NAME, locked
from pipeline.records.host_trust import HostTrust
from pipeline.records.layout import NOTE, Records, safe_name
from pipeline.records.signed import parse_signed, write_record
from remote.project.digests import count_values
from remote.protocol.dataclass import dataclass, field
from remote.protocol.evaluation import ANSWERS
from remote.protocol.findings import Finding
from remote.protocol.gauges import GpuUse
from remote.protocol.jobs import JobState
from remote.protocol.layout import GPU_EVENTS
from remote.protocol.quantities import count
from remote.protocol.regular import read_regular
from remote.protocol.shell import command_line
from remote.protocol.values import Malformed, decode, encode

START_FOREIGN = "pipeline run --host ... --config ...   (the record of the run was not written by you)"
START_AGAIN = "pipeline run --host HOST --config NAME   (the original host and config; the run is found on the host)"
VERBS = ("evaluate", "merge", "merge --dequantize")
PROGRESS_FIELDS = ("step", "steps", "loss", "best_loss", "first_loss", "elapsed_s", "losses", "loss_steps")
LARGEST_NOTE = 2**20
LARGEST_LIST = 32 * 2**20
"""Limits of the memory that one record, and all records of a list, take: see `_memory_of`. A record of a run with a
full history of its loss takes 10 KiB.
"""
LONGEST_TEXT = 4096
MOST_ITEMS = {"losses": 1000, "loss_steps": 1000, "gpus": 256, "rewritten": 2000}
MOST_MARKS = 20
SHOWN_DAMAGED = 20


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
    the values that they had in the commands that started the run or attached to it. `trust` is about `host_config`.
    `own_command` is True if the config has a `command:`, which may load a checkpoint that is unknown to halfstep.
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
    trust: HostTrust = field(default_factory=HostTrust)
    own_command: bool = False

    def completed(self, hint: str) -> str:
        """Return the hint with complete commands. Config and settings of another user's record are not repeated."""
        config, given = (self.config, self.given) if self.own else ("", ())
        return complete_hint(hint, self.host, config, given)

    @property
    def resume_command(self) -> str:
        """The command that resumes the run, even if its inputs have changed since."""
        if not self.own:
            return START_FOREIGN
        return self.start_command if self.evaluates else f"{self.start_command} --resume {self.name}"

    @property
    def start_command(self) -> str:
        """The command that started the run. With changed inputs, the command starts a new run.

        Hosts, configs and settings in a record that another user wrote are not repeated.
        """
        if not self.own:
            return START_FOREIGN
        if self.evaluates:
            own = [word for word in overrides_in(self.given) if word.startswith("evaluation.")]
            words = ["--adapter", self.evaluates, *self.given] if "/" in self.evaluates else [self.evaluates]
            return command_line(
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
    save_note(folder, replace(note, start=start, name=folder.name))


def save_note(folder: Path, note: RunNote) -> None:
    """Write the record. Values of which a host may send any number are cut, so that the record can be read."""
    items: dict[str, Any] = {name: getattr(note, name)[-most:] for name, most in MOST_ITEMS.items()}
    marks = {name: each[-MOST_MARKS:] for name, each in note.secret_marks.items()}
    texts: dict[str, Any] = {name: getattr(note, name)[:LONGEST_TEXT] for name in ("reason", "waits")}
    short = replace(note, **items, secret_marks=marks, **texts)
    write_record(folder / NOTE, encode(short), signed=note.own)


def read_note(folder: Path) -> RunNote | None:
    """Return the note in a run's folder, or None if the note cannot be read or belongs to another run.

    A cloned project may contain notes that this user did not write. The options of such a note are dropped, because
    printed commands would repeat them, and the note counts as the oldest.
    """
    try:
        return _parse_note(folder.name, read_regular(folder / NOTE, LARGEST_NOTE))
    except OSError:
        return None


def _memory_of(data: bytes) -> int:
    """Return an estimate of the memory that the values of the record take, which is more than the record itself."""
    return 1024 + len(data) + 32 * count_values(data)


def _parse_note(name: str, data: bytes) -> RunNote | None:
    """Return the note in the run's folder with this name, or None. See `read_note`."""
    if _memory_of(data) > LARGEST_NOTE:
        return None
    try:
        body, own = parse_signed(data)
        note = replace(decode(RunNote, body), name=name, own=own)
    except (ValueError, Malformed):
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
    short = max(map(len, (note.host, note.config, note.project, note.evaluates))) <= LONGEST_TEXT
    return short and of_folder and note.verb in VERBS and all(map(RUN_NAME.fullmatch, (*runs, note.project)))


@dataclass(frozen=True)
class RecordedRuns:
    """The records of a project's runs.

    `notes`: the runs, the one that was started or resumed last first. They lack the fields of LEFT_OUT. `damaged`: the
    paths of the records that cannot be read. `unread`: the number of further records, which were not read, because a
    cloned project may contain any number of them.
    """

    notes: tuple[RunNote, ...] = ()
    damaged: tuple[Path, ...] = ()
    unread: int = 0


LEFT_OUT: dict[str, Any] = {"reason": "", "host_config": {}, "trust": HostTrust(), "secret_marks": {}}
LEFT_OUT |= dict.fromkeys(("losses", "loss_steps", "rewritten"), ())
"""The fields that only `read_note` returns, with the values that they have in a list."""


def recorded_runs(records: Records) -> RecordedRuns:
    """Return the runs of the project. The records that were written last are read first."""
    notes: list[RunNote] = []
    damaged: list[Path] = []
    memory = 0
    paths = _paths_of_notes(records)
    for path in paths:
        if memory > LARGEST_LIST:
            break
        try:
            data = read_regular(path, LARGEST_NOTE)
        except OSError:
            data = b""
        memory += _memory_of(data)
        note = _parse_note(path.parent.name, data)
        if note is None:
            damaged.append(path)
        else:
            gpus = note.gpus[: MOST_ITEMS["gpus"]]
            notes.append(replace(note, waits=note.waits[:LONGEST_TEXT], gpus=gpus, **LEFT_OUT))
    notes.sort(key=lambda note: (note.start, note.created_unix), reverse=True)
    return RecordedRuns(tuple(notes), tuple(sorted(damaged)), len(paths) - len(notes) - len(damaged))


def _paths_of_notes(records: Records) -> list[Path]:
    """Return the paths of all records, the one that was written last first."""
    return [path for _, path in sorted(_written(records), key=lambda each: each[0], reverse=True)]


def _written(records: Records) -> Iterator[tuple[float, Path]]:
    """Yield the path of each record, with the time when it was written."""
    for folder in records.runs.iterdir() if records.runs.is_dir() else ():
        with suppress(OSError):
            yield (folder / NOTE).lstat().st_mtime, folder / NOTE


def list_notes(records: Records) -> tuple[RunNote, ...]:
    """Return the runs of the project. The run that was started or resumed last is the first. See RecordedRuns."""
    return recorded_runs(records).notes


def judge_notes(runs: RecordedRuns) -> tuple[Finding, ...]:
    """Return warnings for the records that cannot be read, and for those that were not read."""
    damaged = [
        Finding.warning("damaged-note", f"the record of {path.parent.name} cannot be read", str(path), START_AGAIN)
        for path in runs.damaged[:SHOWN_DAMAGED]
    ]
    if len(runs.damaged) > SHOWN_DAMAGED:
        message = f"{count(len(runs.damaged) - SHOWN_DAMAGED, 'more record')} cannot be read"
        damaged.append(Finding.warning("damaged-note", message, str(runs.damaged[0].parents[1]), START_AGAIN))
    if runs.unread:
        message = f"{count(runs.unread, 'older record')} not read: the project's records are too large or too many"
        damaged.append(Finding.warning("unread-notes", message, hint="ls -lt .halfstep/runs"))
    return tuple(damaged)


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
