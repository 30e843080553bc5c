"""Records with an HMAC, which distinguishes the user's own records from the records in a cloned project."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from pipeline.records.files import write_atomic
from remote.project.digests import parse_record, read_json
from remote.project.user_folder import is_signed, sign
from remote.protocol.values import dumps

SIGNATURE = "seal"


def write_record(path: Path, body: dict[str, Any], *, signed: bool) -> None:
    """Write the record, with its HMAC if `signed` and the user's configuration folder is usable."""
    if signed:
        with contextlib.suppress(OSError):
            body = {**body, SIGNATURE: sign(dumps(body))}
    write_atomic(path, dumps(body))


def read_record(path: Path) -> tuple[Any, bool]:
    """Return the record without its HMAC, and True if this user wrote it. Raises OSError, ValueError."""
    return _without_signature(read_json(path))


def parse_signed(data: bytes) -> tuple[Any, bool]:
    """Return the result of `read_record` for the content of a record. Raises ValueError."""
    return _without_signature(parse_record(data))


def _without_signature(body: Any) -> tuple[Any, bool]:
    kept = body.pop(SIGNATURE, None) if isinstance(body, dict) else None
    try:
        return body, isinstance(kept, str) and is_signed(dumps(body), kept)
    except ValueError:
        return body, False
