"""Confirmations of the user, stored in the user's configuration folder, never in a project."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from pipeline.records.files import disk_full_as_error
from remote.link.ssh.host_keys import own_known_hosts


def consents(name: str, environment: Mapping[str, str]) -> Path:
    """Return the user's file of that name, with one confirmation per line."""
    return own_known_hosts(environment).with_name(name)


def is_confirmed(path: Path, line: str) -> bool:
    """Return True if the file contains the line."""
    try:
        return line in path.read_text("utf-8", "surrogateescape").splitlines()
    except FileNotFoundError:
        return False


def keep_consent(path: Path, line: str) -> None:
    """Append the line to the file, which only its owner can read."""
    with disk_full_as_error(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as file:
            file.write(f"{line}\n".encode("utf-8", "surrogateescape"))


def hmac_of(body: bytes, environment: Mapping[str, str] | None = None) -> str:
    """Return an HMAC of the bytes, with a key in the user's configuration folder.

    The key is created if there is none. Raises OSError if it can be neither read nor created.
    """
    path = consents("note_key", os.environ if environment is None else environment)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(FileExistsError):
        fresh = path.with_name(f".note_key-{os.getpid()}")
        fresh.write_bytes(secrets.token_bytes(32))
        fresh.chmod(0o600)
        try:
            path.hardlink_to(fresh)  # atomic: of two processes, the first creates the key
        finally:
            fresh.unlink()
    return hmac.new(path.read_bytes(), body, hashlib.sha256).hexdigest()
