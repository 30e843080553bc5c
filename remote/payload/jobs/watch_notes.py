"""Read the notes of the watch (the hooks during training): one line for each problem and rank."""

from __future__ import annotations

import json
import os
from typing import Dict, Optional, Tuple

from remote.protocol.findings import valid_check
from remote.protocol.jobs import Started, WatchNote
from remote.protocol.layout import RunLayout
from remote.protocol.text import one_line

TAIL_BYTES = 2**18
CLOCK_TOLERANCE_S = 2.0


def read_watch_notes(run: RunLayout, started: Optional[Started]) -> Tuple[WatchNote, ...]:
    """Return the first note of each check since the job began, oldest first. An incomplete line is skipped."""
    since = started.started_unix - CLOCK_TOLERANCE_S if started is not None else 0.0
    first: Dict[str, WatchNote] = {}
    for line in _lines(run.watched):
        try:
            row = json.loads(line)
            note = WatchNote(
                valid_check(str(row["check"])),
                one_line(str(row["severity"])),
                one_line(str(row["message"])),
                int(row["step"]),
                float(row["at_unix"]),
            )
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):  # the training may write any line
            continue
        if note.at_unix >= since:
            first.setdefault(note.check, note)
    return tuple(first.values())


def _lines(path: str) -> Tuple[bytes, ...]:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return tuple(file.read(TAIL_BYTES).splitlines())
    except OSError:
        return ()
