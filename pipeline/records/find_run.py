"""Find one of a project's recorded runs by its name, its config or a prefix."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from pipeline.records.files import RUN_NAME, read_holder
from pipeline.records.layout import Records
from pipeline.records.projects import project_records
from pipeline.records.runs import START_AGAIN, RunNote, list_notes, read_note, recorded_runs
from remote.errors import BadUsage


def find_note(records: Records, run: str | None, *, trained: bool = False) -> RunNote:
    """Return the run with the name `run`, else the newest run of the config `run`, else the only run with the
    prefix `run`. A record that this user did not write is returned only if none of the user's own fits: a cloned
    project may contain a run with the name of a config. Without `run`, return the training run that was started or
    resumed last. With `trained`, evaluations and merges are never returned. Raises BadUsage with the most similar
    name.
    """
    trained = trained or run is None
    exact = _exact(records, run, trained=trained)
    if exact is not None and exact.own:
        return exact
    runs = recorded_runs(records)
    notes = _with_exact([note for note in runs.notes if not (trained and note.evaluates)], exact)
    _refuse_damaged(runs.damaged, run, notes)
    if not notes:
        raise _no_runs(records)
    found = notes[:1] if run is None else notes_named(notes, run)
    if len(found) > 1:
        raise _ambiguous(str(run), found)
    if not found:
        raise _unknown(str(run), notes)
    return whole_note(found[0], records)


def _exact(records: Records, run: str | None, *, trained: bool) -> RunNote | None:
    """Return the run with the name `run`, or None."""
    found = read_note(records.folder_named(run)) if run and RUN_NAME.fullmatch(run) else None
    return None if found is not None and trained and found.evaluates else found


def _with_exact(notes: Sequence[RunNote], exact: RunNote | None) -> tuple[RunNote, ...]:
    """Return the notes, and `exact` if the list of records does not contain it, because they are too many."""
    missing = exact is not None and all(note.name != exact.name for note in notes)
    return (*notes, exact) if exact is not None and missing else tuple(notes)


def _no_runs(records: Records) -> BadUsage:
    """Return the error of a project without training runs. The stages before the first training take minutes."""
    message, hint = "this project has no training runs yet", "pipeline run --host HOST --config NAME"
    holder = next(filter(None, map(read_holder, records.locks())), "")
    if holder:
        message, hint = f"{message}, but one is being prepared: {holder}", "try again when its training has begun"
    return BadUsage(message, where=str(records.root), hint=hint)


def _ambiguous(run: str, found: Sequence[RunNote]) -> BadUsage:
    message = f"{run!r} is ambiguous: {', '.join(note.name for note in found)}"
    return BadUsage(message, where="RUN", hint="pipeline list", instead=(run, found[0].name))


def _unknown(run: str, notes: Sequence[RunNote]) -> BadUsage:
    near = difflib.get_close_matches(run, [note.name for note in notes], n=1, cutoff=0.6)
    message, instead = f"this project has no run {run!r}", (run, near[0]) if near else None
    return BadUsage(message, where="RUN", hint="pipeline list", instead=instead)


def whole_note(listed: RunNote, records: Records) -> RunNote:
    """Return the record of a listed run with all of its fields."""
    return read_note(records.folder_named(listed.name)) or listed


def _refuse_damaged(damaged: Sequence[Path], run: str | None, notes: Sequence[RunNote]) -> None:
    """Raise BadUsage if the record of the run `run`, or the only record, cannot be read."""
    for path in damaged:
        if path.parent.name == run or not (run or notes):
            raise BadUsage(f"the record of {path.parent.name} cannot be read", where=str(path), hint=START_AGAIN)


def notes_named(notes: Sequence[RunNote], run: str) -> tuple[RunNote, ...]:
    """Return the run with the name `run`, else the newest run of the config `run`, else all runs with the prefix `run`.

    `notes` must be sorted, the newest first. The user's own runs take precedence.
    """
    return _fitting([note for note in notes if note.own], run) or _fitting(notes, run)


def _fitting(notes: Sequence[RunNote], run: str) -> tuple[RunNote, ...]:
    of_config = [note for note in notes if note.config == run and not note.evaluates]
    named = [note for note in notes if note.name == run] or of_config
    if named:
        return (named[0],)
    return tuple(note for note in notes if run and note.name.startswith(run))


def named_run(run: str | None, cwd: Path, *, trained: bool = False) -> tuple[RunNote, Records]:
    """Return the run that `find_note` finds in the project that contains `cwd`, and the records that contain the run.

    The runs of the folders that configs name with `project:` are runs of the project too. If several folders have such
    a run, return the one that began last. Raises BadUsage, also for a prefix of runs in several folders.
    """
    every = project_records(cwd)
    records = every[0] if len(every) == 1 else _records_with(run, every, trained=trained or run is None)
    return find_note(records, run, trained=trained), records


def _records_with(run: str | None, every: Sequence[Records], *, trained: bool) -> Records:
    """Return the records of the selected run, or the first records in use if there is no such run."""
    found = [(one, records) for records in every for one in _fitting_runs(records, run, trained)]
    if not found:
        return next(filter(_is_used, every), every[0])
    best = max(_precedence(note, run) for note, _ in found)
    found = [each for each in found if _precedence(each[0], run) == best]
    if not best[1] and len({records.root for _, records in found}) > 1:
        raise _ambiguous(str(run), [note for note, _ in found])
    return max(found, key=lambda each: began_unix(each[0]))[1]


def _precedence(note: RunNote, run: str | None) -> tuple[bool, bool]:
    """Return whether this user wrote the record, and whether `run` is the name or the config of the run, or None."""
    return note.own, run in (None, note.name) or (note.config == run and not note.evaluates)


def _is_used(records: Records) -> bool:
    """Return True if the project has runs, or if its first run is being prepared."""
    return bool(list_notes(records)) or any(map(read_holder, records.locks()))


def _fitting_runs(records: Records, run: str | None, trained: bool) -> tuple[RunNote, ...]:
    listed = [note for note in list_notes(records) if not (trained and note.evaluates)]
    notes = _with_exact(listed, _exact(records, run, trained=trained))
    return notes[:1] if run is None else notes_named(notes, run)


def began_unix(note: RunNote) -> float:
    """Return when the newest job of the run began, or when the run was created if that is unknown."""
    return max(note.created_unix, note.started_unix or 0.0)
