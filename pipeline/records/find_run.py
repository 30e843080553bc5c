"""Find one of a project's recorded runs by its name, its config or a prefix."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from pipeline.config.find import find_project
from pipeline.records.files import RUN_NAME, read_holder
from pipeline.records.layout import Records
from pipeline.records.runs import START_AGAIN, RunNote, read_note, recorded_runs
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
        message = f"{run!r} is ambiguous: {', '.join(note.name for note in found)}"
        raise BadUsage(message, where="RUN", hint="pipeline list", instead=(str(run), found[0].name))
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
    """Return the result of `find_note`, and the project's records. Raises BadUsage."""
    records = Records(find_project(cwd))
    return find_note(records, run, trained=trained), records
