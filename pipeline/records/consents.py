"""Confirmations of the user, stored in the user's configuration folder, never in a project."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from pipeline.records.files import FULL, disk_full_as_error
from remote.errors import BadUsage
from remote.link.ssh.host_keys import open_to_append, own_known_hosts
from remote.project.digests import read_regular

LARGEST = 16 * 2**20
ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t"})


def consents(name: str, environment: Mapping[str, str]) -> Path:
    """Return the path of the user's file of that name. The file has one confirmation per line."""
    return own_known_hosts(environment).with_name(name)


def is_confirmed(path: Path, *fields: str) -> bool:
    """Return True if the file contains the fields as a line. Raises BadUsage if the file cannot be read."""
    try:
        return _line(fields) in read_regular(path, LARGEST).split(b"\n")
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unusable(path, error) from None


def keep_consent(path: Path, *fields: str) -> None:
    """Append the fields as a line to the file, which only its owner can read. Raises BadUsage, DiskFull."""
    try:
        with open_to_append(path) as file:
            file.write(_line(fields) + b"\n")
    except OSError as error:
        if error.errno in FULL:
            with disk_full_as_error(path):
                raise
        raise _unusable(path, error) from None


def _line(fields: tuple[str, ...]) -> bytes:
    """Return the fields as one line, separated by tabs. Line breaks and tabs inside a field are escaped."""
    return "\t".join(field.translate(ESCAPES) for field in fields).encode("utf-8", "surrogateescape")


def _unusable(path: Path, error: OSError) -> BadUsage:
    message = f"{path}, with your earlier answers, cannot be used: {error.strerror}"
    return BadUsage(message, where=str(path), hint=f"ls -l {shlex.quote(str(path))}")
