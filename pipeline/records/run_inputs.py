"""Record the inputs of each run, and compare them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.records.files import write_atomic
from remote.project.digests import read_json
from remote.protocol.dataclass import dataclass, field
from remote.protocol.values import Malformed, decode, dumps

RUN_INPUTS = "inputs.json"


@dataclass(frozen=True)
class RunInputs:
    """The inputs of a run.

    `files` maps each path to its digest before changes by fixers. `others` are machine, card and data. `command` is the
    command of the job, for display. `commit` is the commit of the project's git repository; `uncommitted` are the files
    that differ from that commit.
    """

    files: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    command: str = ""
    commit: str = ""
    uncommitted: tuple[str, ...] = ()


def write_inputs(folder: Path, inputs: RunInputs) -> None:
    """Record the inputs in the run's folder."""
    write_atomic(folder / RUN_INPUTS, dumps(inputs))


def read_inputs(folder: Path) -> RunInputs | None:
    """Return the recorded inputs, or None if no valid record exists."""
    try:
        return decode(RunInputs, read_json(folder / RUN_INPUTS))
    except (OSError, ValueError, Malformed):
        return None


def differing_files(before: RunInputs, now: RunInputs) -> Iterator[tuple[str, str]]:
    """Yield the path of each file that differs, and "changed", "added" or "deleted"."""
    for path in sorted({*before.files, *now.files}):
        if path not in before.files:
            yield path, "added"
        elif path not in now.files:
            yield path, "deleted"
        elif before.files[path] != now.files[path]:
            yield path, "changed"


def differing_values(
    before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the key as `a.b`, the old value and the new value, for each key whose values differ."""
    for key in {**before, **now}:
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from differing_values(old, new, f"{prefix}{key}.")
        elif old != new:
            yield f"{prefix}{key}", old, new
