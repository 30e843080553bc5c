"""The identity of a project: its owner and its key on a host, derived from the user, machine and folder."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

from remote.protocol.layout import project_key


def owner_of(root: Path) -> str:
    """Return the owner of a project's tree on a host, as `user@machine:folder`."""
    return f"{_user()}@{socket.gethostname()}:{root}"


def project_of(root: Path) -> str:
    """Return the project's key on every host. The same folder of the same machine always has the same key."""
    return project_key(root.name, owner_of(root))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
