"""Records with an HMAC, which distinguishes the user's own records from the records in a cloned project.

`write_record` signs the content only, so that a record stays the user's own in a moved project. `write_in_place` signs
the content and the record's path, so that a copy of the record is worthless elsewhere.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from pipeline.records.files import write_atomic
from remote.project.digests import parse_record, read_json
from remote.project.user_folder import KEY, is_signed, sign, user_file
from remote.protocol.values import dumps

SIGNATURE = "seal"


def write_record(path: Path, body: dict[str, Any], *, signed: bool) -> None:
    """Write the record, with its HMAC if `signed` and the user's configuration folder is usable."""
    if signed:
        with contextlib.suppress(OSError):
            body = {**body, SIGNATURE: sign(dumps(body))}
    write_atomic(path, dumps(body))


def parse_signed(data: bytes) -> tuple[Any, bool]:
    """Return a record without its HMAC, and True if this user wrote it. `data` is its content. Raises ValueError."""
    return _without_signature(parse_record(data))


class NotOwn(ValueError):
    """This user did not write the record, or not at this path. The message says why the record is not used."""


def write_in_place(path: Path, body: dict[str, Any]) -> None:
    """Write a record that only `read_in_place` with the same path and the same user accepts.

    If the user's configuration folder is not usable, the record is written without an HMAC, and counts as missing.
    """
    with contextlib.suppress(OSError):
        body = {**body, SIGNATURE: sign(_place(path) + dumps(body))}
    write_atomic(path, dumps(body))


def read_in_place(path: Path) -> Any:
    """Return a record that this user wrote at this path. Raises OSError, NotOwn, ValueError if it is damaged."""
    body, own = _without_signature(read_json(path), _place(path))
    if not own:
        raise NotOwn(_why_not_own())
    return body


def _why_not_own() -> str:
    try:
        sign(b"")
    except OSError as error:
        return f"could not be signed ({user_file(KEY)}: {error.strerror})"
    return "were written by another user, in another folder, or by an earlier version of halfstep"


def _place(path: Path) -> bytes:
    return os.fsencode(path.absolute()) + b"\n"


def _without_signature(body: Any, place: bytes = b"") -> tuple[Any, bool]:
    kept = body.pop(SIGNATURE, None) if isinstance(body, dict) else None
    try:
        return body, isinstance(kept, str) and is_signed(place + dumps(body), kept)
    except ValueError:
        return body, False
