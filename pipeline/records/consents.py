"""Confirmations of the user, stored in the user's configuration folder, never in a project."""

from __future__ import annotations

from pathlib import Path

from pipeline.records.files import FULL, disk_full_as_error
from remote.errors import BadUsage
from remote.link.ssh.host_keys import open_to_append
from remote.project.user_folder import LARGEST
from remote.protocol.regular import read_regular
from remote.protocol.shell import shell_command

ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t"})


def is_confirmed(path: Path, *fields: str) -> bool:
    """Return True if the file contains the fields as a line. Raises BadUsage if the file cannot be read."""
    return _line(fields) in _lines(path)


def read_consents(path: Path) -> list[tuple[str, ...]]:
    """Return the fields of every line, as they are escaped. Raises BadUsage if the file cannot be read."""
    return [tuple(line.decode("utf-8", "surrogateescape").split("\t")) for line in _lines(path)]


def _lines(path: Path) -> list[bytes]:
    try:
        return read_regular(path, LARGEST).split(b"\n")
    except FileNotFoundError:
        return []
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
    message = f"{path}, which stores your confirmations, cannot be read or written: {error.strerror}"
    return BadUsage(message, where=str(path), hint=shell_command("ls -l {}", path))
