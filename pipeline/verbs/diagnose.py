"""`pipeline diagnose`: name the error in a log, its cause, the fix, and the folk fix that is wrong."""

from __future__ import annotations

import shlex
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from pipeline.config.find import find_project
from pipeline.diagnosis.diagnose import Diagnosis, as_finding, diagnose_log
from pipeline.hosts.output import read_output
from pipeline.messages.outcome import Outcome
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, list_notes, named_run, notes_named
from pipeline.show.screen import Screen
from remote.errors import BadUsage
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, exit_code_of
from remote.protocol.jobs import JobState

LARGEST_LOG = 256 * 2**20


def diagnose(what: str = "", as_json: bool = False) -> int:
    """What went wrong, the first in time first. Exit 0 where the log is healthy, 40 where it names an error."""
    screen = Screen(as_json=as_json)
    log = _log(screen, what)
    found = diagnose_log(log.text)
    if not as_json:
        for one in found:
            _show(screen, one, log.name)
        if not found:
            screen.note(f"nothing that is known to go wrong is in this log{_end_of(log.note)}")
    findings = tuple(as_finding(one, log.name) for one in found)
    outcome = Outcome(
        "diagnose",
        exit_code_of((*findings, *log.stale), ExitCode.TRAINING),
        host=log.note.host if log.note else "",
        config=log.note.config if log.note else "",
        given=log.note.given if log.note else (),
        run=log.note.name if log.note else "",
        findings=(*(findings if as_json else ()), *log.stale),
        more={"diagnoses": [_in_full(one, log.name) for one in found]},
    )
    screen.closing(outcome)
    return outcome.exit_code


@dataclass(frozen=True)
class Log:
    """What is diagnosed: its text, what it is called, whose output it is where it is a run's."""

    text: str
    name: str
    note: RunNote | None = None
    stale: tuple[Finding, ...] = ()


def _log(screen: Screen, what: str) -> Log:
    if what == "-":
        return Log(sys.stdin.buffer.read(LARGEST_LOG).decode("utf-8", "replace"), "standard input")
    path = Path(what)
    if what and path.is_file():
        if path.stat().st_size > LARGEST_LOG:
            raise BadUsage(
                f"{path} is larger than {LARGEST_LOG} bytes",
                where=what,
                hint=f"tail -c 100M {shlex.quote(what)} | pipeline diagnose -",
            )
        return Log(path.read_bytes().decode("utf-8", "replace"), what)
    if what and not notes_named(list_notes(Records(find_project(Path.cwd()))), what):
        raise BadUsage(
            f"{what!r} is neither a file here nor a run of this project", where="FILE|RUN|-", hint="pipeline list"
        )
    note, records = named_run(what or None, Path.cwd())
    data = bytearray()
    stale = read_output(note, records, data.extend, ask=None if screen.as_json else screen)
    return Log(data.decode("utf-8", "replace"), f"output of {note.name}", note, stale)


def _end_of(note: RunNote | None) -> str:
    """How the job of a log without an error ended all the same, as last seen."""
    if note is None or note.state is not JobState.FAILED or note.exit is None:
        return ""
    known = note.exit > 128 and note.exit - 128 in set(signal.Signals)
    by = f" ({signal.Signals(note.exit - 128).name}, from outside)" if known else ""
    return f"; its job failed all the same, with exit {note.exit}{by}"


def _in_full(one: Diagnosis, log: str) -> dict[str, object]:
    """All that the catalog knows of it, for --json."""
    finding, entry = as_finding(one, log), one.entry
    return {
        "check": finding.check,
        "log": log,
        "line": one.line.number,
        "rank": one.line.rank,
        "count": one.count,
        "context": list(one.context),
        "cause": finding.message,
        "fix": finding.hint,
        "folk_wrong": entry.folk_wrong if entry else "",
        "cures": list(entry.cures) if entry else [],
    }


def _show(screen: Screen, one: Diagnosis, log: str) -> None:
    finding, entry = as_finding(one, log), one.entry
    screen.entry(one.check, finding.where, [])
    for line in one.context:
        screen.line(f"    | {line}")
    parts = [("cause", finding.message), ("fix", finding.hint)]
    if entry is not None:
        parts += [("not", entry.folk_wrong), ("run", f"would try {', '.join(entry.cures)}" if entry.cures else "")]
    screen.entry("", "", [(label, words) for label, words in parts if words])
