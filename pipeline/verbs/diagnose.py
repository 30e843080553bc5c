"""`pipeline diagnose`: name the error in a log, its cause, the fix, and popular advice that does not work."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path

from pipeline.config.read_limit import NOT_READ
from pipeline.diagnosis.diagnose import Diagnosis, as_finding, diagnose_log
from pipeline.hosts.output import read_output
from pipeline.hosts.tail import Tail, tail_of
from pipeline.messages.outcome import Outcome
from pipeline.records.find_run import began_unix, named_run, notes_named
from pipeline.records.layout import Records
from pipeline.records.projects import project_records
from pipeline.records.runs import RunNote, list_notes, read_note
from pipeline.runs.missing_files import explained_by
from pipeline.runs.secrets import hide_project_secrets
from pipeline.show.screen import Screen
from pipeline.verbs.run_outcome import outcome_for
from remote.errors import BadUsage
from remote.project.paths import is_file
from remote.protocol.dataclass import dataclass
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.jobs import JobState
from remote.protocol.text import one_line

DISK_FULL = "disk-full"


def diagnose(what: str = "", as_json: bool = False) -> int:
    """Show the errors of a log, the earliest first.

    Exit code: 0 without errors, 22 if the disk was full, else 40.
    """
    screen = Screen(as_json=as_json)
    log = _log(screen, what)
    found = diagnose_log(log.text, log.first)
    full = _disk_full(log.note, found)
    if not as_json:
        for one in found:
            _show(screen, one, log)
        if not found and not full and not log.has_not_begun:
            screen.note(f"no known error in {'the ' if log.note else ''}{log.name}{_ending(log.note)}")
            if log.note is not None and log.note.state in (JobState.FAILED, JobState.LOST):
                screen.next_step(log.note.resume_command)
    findings = tuple(log.explain(as_finding(one, log.name), one) for one in found)
    beyond = (*full, *log.stale)
    outcome = replace(
        outcome_for("diagnose", log.note) if log.note else Outcome("diagnose"),
        exit_code=exit_code_of((*findings, *beyond), ExitCode.TRAINING),
        findings=(*(findings if as_json else ()), *beyond),
        more={"diagnoses": [_finding_as_json(one, log) for one in found]},
    )
    screen.closing(outcome)
    return outcome.exit_code


@dataclass(frozen=True)
class Log:
    """The end of a log.

    `first` is the number of its first line. `note` is the record of the run that printed the log, or None. `root` is
    the folder of the project, by whose files missing files are explained.
    """

    text: str
    first: int
    name: str
    note: RunNote | None = None
    stale: tuple[Finding, ...] = ()
    root: Path = Path()

    @cached_property
    def explain(self) -> Callable[[Finding, Diagnosis], Finding]:
        """The function that explains a finding by the files of the project."""
        return explained_by(self.root)

    @property
    def has_not_begun(self) -> bool:
        """Return True if the run's job has not begun, so that there is nothing to diagnose."""
        return any(one.check == "not-begun" for one in self.stale)


def _text_of(path: Path) -> tuple[str, int]:
    """Return the end of a log file, and the number of its first line."""
    try:
        with path.open("rb") as file:
            wide = file.read(2) == codecs.BOM_UTF16_LE
            file.seek(0)
            tail = tail_of(file)
    except OSError as error:
        raise BadUsage(f"{path} cannot be read: {error.strerror}", where="FILE|RUN|-") from error
    return tail.utf16() if wide else tail.text()


def _log(screen: Screen, what: str) -> Log:
    every = project_records(Path.cwd())
    notes = [note for records in every for note in list_notes(records)]
    _hide_secrets(screen, notes)
    if what == "-":
        return Log(*tail_of(sys.stdin.buffer).text(), "standard input", root=every[0].root)
    path = Path(what) if what else _newest_proof_output(every, max(map(began_unix, notes), default=0.0)) or Path()
    if is_file(path):
        return Log(*_text_of(path), what or os.path.relpath(path), root=every[0].root)
    if what and not notes_named(notes, what):
        raise BadUsage(
            f"{what!r} is neither a file nor a run of this project", where="FILE|RUN|-", hint="pipeline list"
        )
    note, records = named_run(what or None, Path.cwd())
    tail = Tail()
    stale = read_output(note, records, tail.feed, prompter=None if screen.as_json else screen)
    return Log(
        *tail.text(),
        f"output of {note.name}",
        read_note(records.folder_named(note.name)) or note,
        stale,
        records.root,
    )


def _newest_proof_output(every: Sequence[Records], since_unix: float) -> Path | None:
    found = [path for records in every if (path := records.newest_proof_output(since_unix)) is not None]
    return max(found, key=lambda path: path.lstat().st_mtime, default=None)


def _hide_secrets(screen: Screen, notes: Sequence[RunNote]) -> None:
    beyond = hide_project_secrets(Path.cwd(), (name for note in notes for name in note.secrets))
    if beyond:
        screen.note(f"{beyond} files in configs/ were {NOT_READ}. The values of secrets that they list are not masked.")


def _ending(note: RunNote | None) -> str:
    """Return a phrase for the last known end of the job, or "" if the job succeeded."""
    if note is not None and note.state is JobState.STOPPED:
        return "; the job was stopped on request"
    if note is not None and note.state is JobState.LOST:
        return "; but the job was lost: the host was restarted, or the training and its supervisor were killed"
    if note is None or note.state is not JobState.FAILED or note.exit is None:
        return ""
    if note.preempted:
        return "; the job was preempted; its checkpoint is kept"
    return f"; but the job failed: {one_line(note.reason) or f'exit status {note.exit}'}"


def _disk_full(note: RunNote | None, found: Sequence[Diagnosis]) -> tuple[Finding, ...]:
    """Return a finding if the job's disk was full, because the job could not print an error in this case."""
    if note is None or not note.disk_full or any(one.check == DISK_FULL for one in found):
        return ()
    message = f"the file system of {note.name} had no space left when its job ended"
    return (Finding.error(DISK_FULL, message, hint="pipeline hosts check", exit_code=ExitCode.DISK),)


def _finding_in(one: Diagnosis, log: Log) -> Finding:
    """Return the diagnosis as a finding. If a run printed the log, commands in the hint have its host and config."""
    finding, note = log.explain(as_finding(one, log.name), one), log.note
    return replace(finding, hint=note.completed(finding.hint)) if note else finding


def _finding_as_json(one: Diagnosis, log: Log) -> dict[str, object]:
    """Return the finding and its catalog entry for --json."""
    finding, entry = _finding_in(one, log), one.entry
    return {
        "check": finding.check,
        "log": log.name,
        "line": one.line.number,
        "rank": one.line.rank,
        "count": one.count,
        "frame": asdict(one.frame) if one.frame else None,
        "context": list(one.context),
        "cause": finding.message,
        "fix": finding.hint,
        "folk_wrong": entry.folk_wrong if entry else "",
        "cures": list(entry.cures) if entry else [],
    }


def _show(screen: Screen, one: Diagnosis, log: Log) -> None:
    finding, entry = _finding_in(one, log), one.entry
    screen.entry(one.check, finding.where, [])
    for line in one.context:
        screen.line(f"    | {line}")
    parts = [("cause", finding.message), ("fix", finding.hint)]
    if entry is not None:
        parts += [("not", entry.folk_wrong), ("run", f"tries {', '.join(entry.cures)}" if entry.cures else "")]
    screen.entry("", "", [(label, words) for label, words in parts if words])
