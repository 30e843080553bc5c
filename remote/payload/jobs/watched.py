"""What the live watch wrote down of a job: a line for each kind of trouble and rank; the first of each kind counts."""

from __future__ import annotations

import json
import os
from typing import Dict, Optional, Tuple

from remote.protocol.jobs import Started, WatchNote
from remote.protocol.layout import RunLayout

LATEST_BYTES = 2**18
CLOCKS_S = 2.0


def read_watched(run: RunLayout, started: Optional[Started]) -> Tuple[WatchNote, ...]:
    """What was seen since that job began, oldest first; a line that is not whole is none."""
    since = started.started_unix - CLOCKS_S if started is not None else 0.0
    first: Dict[str, WatchNote] = {}
    for line in _lines(run.watched):
        try:
            row = json.loads(line)
            note = WatchNote(
                str(row["check"]), str(row["severity"]), str(row["message"]), int(row["step"]), float(row["at_unix"])
            )
        except (ValueError, KeyError, TypeError):
            continue
        if note.at_unix >= since:
            first.setdefault(note.check, note)
    return tuple(first.values())


def _lines(path: str) -> Tuple[bytes, ...]:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LATEST_BYTES))
            return tuple(file.read(LATEST_BYTES).splitlines())
    except OSError:
        return ()
