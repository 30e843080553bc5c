"""Which laptop and which folder a project is: its key on a host and the words that name its owner follow from both."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

from remote.protocol.layout import project_key


def owner_of(root: Path) -> str:
    """Who a project's tree on a host belongs to: person, machine and folder, without a record of it."""
    return f"{_user()}@{socket.gethostname()}:{root}"


def project_of(root: Path) -> str:
    """The project's key on every host; the same folder of the same machine always has the same."""
    return project_key(root.name, owner_of(root))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
