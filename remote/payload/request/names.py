"""Validation of project and run names in requests."""

from __future__ import annotations

import re
from typing import Any

from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")


def checked_name(name: Any) -> str:
    """Return `name` if it is a plain folder name. Raises Refusal otherwise."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Refusal("usage", f"{name!r} is not a valid name of a project or run", exit_code=ExitCode.USAGE)
    return name
