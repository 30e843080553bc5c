"""How an error reaches the user: what, where, and one thing to type; under --json as the one object."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable

from pipeline.outcome import outcome_of_error
from pipeline.show.screen import Screen
from remote.errors import HalfstepError


def tell(words: list[str], error: HalfstepError) -> None:
    """The error is on stderr, or is the JSON object where `--json` was typed."""
    command = next((word for word in words if not word.startswith("-")), "")
    Screen(as_json="--json" in words, on_stderr=True).closing(outcome_of_error(command, error))


def keep_traceback(lines: Iterable[str]) -> str:
    """The path of a new file that holds the traceback of a defect of ours."""
    fd, path = tempfile.mkstemp(prefix="halfstep-defect-", suffix=".txt")
    with os.fdopen(fd, "w") as file:
        file.writelines(lines)
    return path
