"""Which run a verb means that was given no exact name, where another run of the project may be the one that trains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pipeline.hosts.open_run import open_note
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, list_notes
from remote.errors import HalfstepError
from remote.link.prompter import Prompter
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobState


def judge_others(
    verb: str, run: str | None, meant: RunNote, state: JobState, training: Iterable[str]
) -> tuple[Finding, ...]:
    """A warning for each other run that trains and that the user may have meant, if the meant one does not train."""
    if state is JobState.RUNNING:
        return ()
    return tuple(_also_training(verb, meant, other, "is training") for other in training if _fits(run, meant, other))


def others_elsewhere(
    verb: str, run: str | None, meant: RunNote, records: Records, ask: Prompter | None
) -> tuple[Finding, ...]:
    """The same of runs that were training on other hosts when they were last seen; each of those hosts is asked."""
    seen = (note for note in list_notes(records) if note.state is JobState.RUNNING and note.host != meant.host)
    asked = (_asked(verb, meant, note, records, ask) for note in seen if _fits(run, meant, note.name))
    return tuple(finding for findings in asked for finding in findings)


def _fits(run: str | None, meant: RunNote, other: str) -> bool:
    """What was typed, nothing or a config or the beginning of a name, may mean the other run too."""
    return run != meant.name and other.startswith(run or "")


def _asked(verb: str, meant: RunNote, note: RunNote, records: Records, ask: Prompter | None) -> tuple[Finding, ...]:
    try:
        with open_note(note, records, ask=ask, keep=False) as opened:
            if opened.survey().state is not JobState.RUNNING:
                return ()
    except HalfstepError as error:
        words = f"was training when it was last seen; {note.host} is out of reach ({error.message})"
        return (_also_training(verb, meant, note.name, words),)
    return (_also_training(verb, meant, note.name, f"is training on {note.host}"),)


def as_errors(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The same as errors: the verb did nothing, and may not seem to have done what the user wanted."""
    return tuple(replace(one, severity=Severity.ERROR, exit_code=ExitCode.BUSY) for one in findings)


def _also_training(verb: str, meant: RunNote, other: str, how: str) -> Finding:
    words = f"{meant.name}, which was started last, is not running; {other} {how}"
    return Finding("another-run", Severity.WARNING, words, meant.host, f"pipeline {verb} {other}")
