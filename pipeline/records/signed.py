"""Records with an HMAC, which distinguishes the user's own records from the records in a cloned project."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Any

from pipeline.records.consents import LARGEST, consents
from pipeline.records.files import write_atomic
from remote.project.digests import read_json, read_regular
from remote.protocol.values import dumps

SIGNATURE = "seal"
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def write_record(path: Path, body: dict[str, Any], *, signed: bool) -> None:
    """Write the record, with its HMAC if `signed` and the user's configuration folder is usable."""
    if signed:
        with contextlib.suppress(OSError):
            body = {**body, SIGNATURE: _hmac_of(body, _own_key(create=True))}
    write_atomic(path, dumps(body))


def read_record(path: Path) -> tuple[Any, bool]:
    """Return the record without its HMAC, and True if this user wrote it. Raises OSError, ValueError."""
    body = read_json(path)
    kept = body.pop(SIGNATURE, None) if isinstance(body, dict) else None
    if not isinstance(kept, str):
        return body, False
    try:
        return body, hmac.compare_digest(_hmac_of(body, _own_key(create=False)).encode(), kept.encode())
    except (OSError, ValueError):
        return body, False


def _hmac_of(body: Any, key: bytes) -> str:
    return hmac.new(key, dumps(body), hashlib.sha256).hexdigest()


def _own_key(*, create: bool) -> bytes:
    """Return the key in the user's configuration folder. Raises OSError if it can be neither read nor created."""
    path = consents("note_key", os.environ)
    with contextlib.suppress(FileNotFoundError):
        return read_regular(path, LARGEST)
    if create:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = path.with_name(f".note_key-{os.getpid()}")
        with os.fdopen(os.open(fresh, NEW_FILE, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
        try:
            path.hardlink_to(fresh)  # atomic: of two processes, the first creates the key
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return read_regular(path, LARGEST)
