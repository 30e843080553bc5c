"""The names of projects and runs that a request bears."""

from __future__ import annotations

import re
from typing import Any

from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")


def checked_name(name: Any) -> str:
    """The name of a project or run, which can lead to no other folder. Raises Refusal."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Refusal("usage", f"{name!r} is not the name of a project or run", exit_code=ExitCode.USAGE)
    return name
