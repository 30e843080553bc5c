"""Warn about other runs that are training: the user may have meant one of them if no exact run name was given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pipeline.hosts.open_run import open_note
from pipeline.records.find_run import whole_note
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, list_notes
from remote.errors import HalfstepError
from remote.link.prompter import Prompter
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobState
from remote.protocol.shell import shell_command


def judge_others(
    verb: str, run: str | None, selected: RunNote, state: JobState, training: Mapping[str, str]
) -> tuple[Finding, ...]:
    """Return a warning for each running or queued run that the user may have meant, unless the selected one is."""
    if state is JobState.RUNNING:
        return ()
    return tuple(
        _also_training(verb, selected, other, f"is {state}")
        for other, state in training.items()
        if _fits(run, selected, other)
    )


def judge_other_hosts(
    verb: str, run: str | None, selected: RunNote, records: Records, prompter: Prompter | None
) -> tuple[Finding, ...]:
    """Return a warning for each running run on another host that the user may have meant.

    Each of these hosts is surveyed.
    """
    running = (note for note in list_notes(records) if note.state is JobState.RUNNING and note.host != selected.host)
    surveyed = (_survey(verb, selected, note, records, prompter) for note in running if _fits(run, selected, note.name))
    return tuple(finding for findings in surveyed for finding in findings)


def judge_still_training(verb: str, host: str, training: Mapping[str, str]) -> tuple[Finding, ...]:
    """Return a warning for each other run of the project that runs or is queued on the host of the selected run."""
    return tuple(
        Finding.warning(
            "another-run", f"{other} is still {state} on {host}", host, shell_command("pipeline {} {}", verb, other)
        )
        for other, state in training.items()
    )


def _fits(run: str | None, selected: RunNote, other: str) -> bool:
    """Return True if the typed name (nothing, a config or a prefix) also fits the other run."""
    return run != selected.name and other.startswith(run or "")


def _survey(
    verb: str, selected: RunNote, note: RunNote, records: Records, prompter: Prompter | None
) -> tuple[Finding, ...]:
    try:
        with open_note(whole_note(note, records), records, prompter=prompter, keep=False) as opened:
            run = opened.survey()
            if run.state is not JobState.RUNNING:
                return ()
    except HalfstepError as error:
        message = f"was running when last seen; {note.host} is unreachable ({error.message})"
        return (_also_training(verb, selected, note.name, message),)
    return (_also_training(verb, selected, note.name, f"is {run.shown_state} on {note.host}"),)


def as_errors(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings as errors, for a verb that stopped because of them."""
    return tuple(replace(one, severity=Severity.ERROR, exit_code=ExitCode.BUSY) for one in findings)


def _also_training(verb: str, selected: RunNote, other: str, how: str) -> Finding:
    message = f"{selected.name} is not running; {other} {how}"
    return Finding.warning("another-run", message, selected.host, shell_command("pipeline {} {}", verb, other))
