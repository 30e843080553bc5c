"""The names in /etc/hosts of this machine."""

from __future__ import annotations

from pathlib import Path

from remote.protocol.regular import read_regular
from remote.protocol.text import file_lines, line_fields

HOSTS_FILE = Path("/etc/hosts")
MAX_FILE = 16 * 2**20


def listed_addresses(name: str) -> tuple[str, ...]:
    """Return the addresses that /etc/hosts lists for the name, in any case. Return () if the file cannot be read."""
    try:
        text = read_regular(HOSTS_FILE, MAX_FILE, follow=True).decode("utf-8", "replace").lower()
    except OSError:
        return ()
    rows = (line_fields(line.partition("#")[0]) for line in file_lines(text))
    return tuple(row[0] for row in rows if name.lower() in row[1:])
