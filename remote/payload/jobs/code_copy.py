"""A run's copy of the code: set aside for a corrected script, with the files that earlier jobs created moved over."""

from __future__ import annotations

import os
import secrets
from typing import List, Sequence

from remote.payload.checkpoints.found import EARLIER_CODE
from remote.payload.files.atomic import write_atomic
from remote.payload.jobs.created_files import move_created, names_in
from remote.protocol.layout import RunLayout

SHOWN = 4


def record_files(run: RunLayout, copy: str) -> None:
    """Store the names of the files in `copy`, the next code/, so that files that jobs create in it are recognised."""
    write_atomic(_listing(run, run.code), b"\0".join(map(os.fsencode, names_in(copy))))


def set_code_aside(run: RunLayout, number: int) -> None:
    """Rename code/, if it exists, to a new folder for the code of the jobs before job `number`."""
    if not os.path.isdir(run.code):
        return
    earlier = f"{run.root}/{EARLIER_CODE}{number}-{secrets.token_hex(2)}"
    try:
        with open(_listing(run, run.code), "rb") as file:
            write_atomic(_listing(run, earlier), file.read())
    except FileNotFoundError:
        pass  # An earlier halfstep made this copy.
    os.rename(run.code, earlier)


def restore_created(run: RunLayout, number: int) -> List[str]:
    """Move the files that earlier jobs created from the code that was set aside for job `number` to code/.

    Return the moved paths, relative to code/. A start that was killed may have set aside several copies. A file whose
    path exists in code/ stays where it is, as do all files of a copy whose sent files are not recorded.
    """
    moved: List[str] = []
    for earlier in _earlier(run, number):
        try:
            with open(_listing(run, earlier), "rb") as file:
                sent = frozenset(map(os.fsdecode, file.read().split(b"\0")))
        except FileNotFoundError:
            continue
        moved += move_created(earlier, run.code, sent)
    return sorted(moved)


def moved_path(run: RunLayout, number: int, path: str) -> str:
    """Return the present place of a folder in code/ or in the code that was set aside for job `number`."""
    copies = [run.code, *_earlier(run, number)]
    relative = next((path[len(copy) + 1 :] for copy in copies if path.startswith(copy + "/")), "")
    if not relative or os.path.isdir(path):
        return path
    return next((f"{copy}/{relative}" for copy in copies if os.path.isdir(f"{copy}/{relative}")), path)


def describe_change(run: RunLayout, number: int, moved: Sequence[str]) -> str:
    """Return one line about the earlier code and the moved paths, or "" if no code was set aside for the job."""
    earlier = _earlier(run, number)
    if not earlier:
        return ""
    places = ", ".join(os.path.basename(path) for path in earlier)
    shown = ", ".join(moved[:SHOWN]) + (f" and {len(moved) - SHOWN} more" if len(moved) > SHOWN else "")
    files = f"moved to the new code/: {shown}" if moved else "no file that they created was moved to the new code/"
    return f"the code of the earlier jobs is kept in {places}; {files}"


def _earlier(run: RunLayout, number: int) -> List[str]:
    prefix = f"{EARLIER_CODE}{number}-"
    return [f"{run.root}/{name}" for name in sorted(os.listdir(run.root)) if name.startswith(prefix)]


def _listing(run: RunLayout, copy: str) -> str:
    return f"{run.sent_files}/{os.path.basename(copy)}"
