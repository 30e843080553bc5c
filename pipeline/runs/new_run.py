"""Explain why a new run is needed: list the inputs that differ from the last run of the same config and host."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pipeline.judgements.job import newest_checkpoint
from pipeline.records.run_inputs import RunInputs, differing_files, differing_values, read_inputs
from pipeline.records.runs import RunNote, list_notes
from pipeline.records.stage_checkpoints import read_checkpoints
from pipeline.runs.command import shown_command
from pipeline.runs.run_id import influential, machine_inputs
from pipeline.runs.trained_files import not_inputs, trained_files
from pipeline.runs.view import View, card_of
from remote.project.commit import read_commit
from remote.protocol.jobs import JobState
from remote.protocol.shell import shell_command

SHOWN = 5
LONGEST = 60
BEFORE = 20
MOST_UNCOMMITTED = 1000


def inputs_of(view: View) -> RunInputs:
    """Return the inputs of the view's run, which are recorded when the run starts."""
    settings = influential(view.loaded.as_json())
    others = {"card": card_of(view), "data": view.data_digest or "by name", **machine_inputs(view)}
    return RunInputs(trained_files(view), {**settings, "host.env": dict(view.host.config.env)}, others)


def inputs_to_record(view: View) -> RunInputs:
    """Return the inputs, completed with the command of the job and the commit of the files."""
    inputs = inputs_of(view)
    commit = read_commit(view.loaded.root, inputs.files)
    return replace(inputs, command=shown_command(view), commit=commit.id, uncommitted=commit.changed[:MOST_UNCOMMITTED])


def describe_new_run(view: View, run: str = "") -> tuple[str, ...]:
    """Return lines with the inputs that differ from the last run, or () if no inputs differ or none were recorded.

    `run` is the id of the new run, or "" if the id is not known yet.
    """
    before = last_run(view, run)
    recorded = read_inputs(view.records.folder_named(before.name)) if before is not None else None
    if before is None or recorded is None:
        return ()
    differences = list(_differences(recorded, inputs_of(view)))
    if not differences:
        return ()
    lines = [f"a new run{f' {run}' if run else ''}, because these inputs differ from {before.name}:"]
    lines += [f"  {words}" for words in differences[:SHOWN]]
    if len(differences) > SHOWN:
        lines.append(f"  and {len(differences) - SHOWN} more")
    seen = view.survey.run(before.run)
    if seen is not None and seen.state is JobState.RUNNING:
        attach = shell_command("pipeline attach {}", before.name)
        lines.append(f"{before.name} is still {seen.shown_state}; to follow it: {attach}")
    elif seen is not None and seen.state is not JobState.SUCCEEDED and newest_checkpoint(seen) is not None:
        lines.append(f"to continue {before.name} instead: {shell_command('pipeline run --resume {}', before.name)}")
    return tuple(lines)


def describe_excluded(view: View) -> str:
    """Return 'not inputs of the run (inputs.exclude): README.md and 3 more', or "" if no file is excluded."""
    paths = not_inputs(view)
    if not paths:
        return ""
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return f"not inputs of the run (inputs.exclude): {', '.join(paths[:SHOWN])}{more}"


def last_run(view: View, other_than: str) -> RunNote | None:
    """Return the last training run of this config on this host, except the run `other_than`, or None.

    It is the run that the last command found on the host or trained to its end, else the run that was started last.
    """
    notes = [
        note
        for note in list_notes(view.records)
        if note.run != other_than
        and not note.evaluates
        and (note.config, note.host) == (view.loaded.name, view.host.name)
    ]
    done = read_checkpoints(view.records.checkpoints(view.host.name, view.loaded.record)).of("train")
    found = [note for note in notes if done is not None and note.run == done.inputs.get("run")]
    return next(iter((*found, *notes)), None)


def _differences(before: RunInputs, now: RunInputs) -> Iterator[str]:
    for path, how in differing_files(before, now):
        yield f"{path} ({how})"
    for key, old, new in differing_values(before.settings, now.settings):
        yield f"{key}: {' -> '.join(_excerpts(_text(old), _text(new)))}"
    yield from _of_machine(before.others, now.others)


def _of_machine(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for key, old, new in differing_values(before, now):
        short = len(str(old)) < LONGEST and len(str(new)) < LONGEST
        yield f"{key}: {old} -> {new}" if short else f"{key} (changed)"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _excerpts(*texts: str) -> Iterator[str]:
    """Return each text, shortened to at most LONGEST characters around the first difference between the texts."""
    shortest = min(map(len, texts))
    same = next((at for at in range(shortest) if len({text[at] for text in texts}) > 1), shortest)
    start = same - BEFORE if same + BEFORE > LONGEST else 0
    for text in texts:
        part = text[start : start + LONGEST]
        yield f"{'...' if start else ''}{part}{'...' if len(text) > start + LONGEST else ''}"
