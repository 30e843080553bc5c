"""Show an error to the user: message, location and suggested command, or the JSON object with --json."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterable
from dataclasses import replace

from pipeline.messages.errors import outcome_of_error
from pipeline.messages.hints import corrected_command, option_value, overrides_in, without_choices
from pipeline.show.screen import Screen
from remote.errors import HalfstepError
from remote.protocol.findings import Finding
from remote.protocol.text import safe_text

SET = "--set "
NAMES = (("host", "--host"), ("config", "--config", "-c"))


def show_error(words: list[str], error: HalfstepError) -> None:
    """Print the error of the command line `words` to stderr.

    If `words` contain `--json`, print the JSON object instead.
    """
    command = next((word for word in words if not word.startswith("-")), "")
    host, config = (error.about.get(name) or option_value(words, *names) for name, *names in NAMES)
    outcome = outcome_of_error(command, with_corrected_hint(words, error))
    outcome = replace(outcome, host=host, config=config, run=error.about.get("run", ""), given=overrides_in(words))
    Screen(as_json="--json" in words, on_stderr=True).closing(outcome)


def with_corrected_hint(words: list[str], error: HalfstepError) -> HalfstepError:
    """If the error contains a correction, set the hint to the typed command with the corrected argument."""
    error.hint = (_corrected(words, *error.instead) if error.instead else "") or error.hint
    error.findings = tuple(replace(one, hint=_whole_command(words, one)) for one in error.findings)
    return error


def _corrected(words: list[str], wrong: str, right: str) -> str:
    """Return the typed command with the correction, or "". For another host, what was typed to be sent is left out."""
    kept, left = without_choices(words) if option_value(words, "--host") == wrong else (words, [])
    line = corrected_command(kept, wrong, right)
    return f"{line}   (type {', '.join(left)} again if you mean this host)" if line and left else line


def _whole_command(words: list[str], finding: Finding) -> str:
    """If the finding's hint corrects a `--set` option, return the typed command with that option, else the hint."""
    wrong, option = finding.where.removeprefix(SET), shlex.split(finding.hint) if finding.hint.startswith(SET) else ()
    line = corrected_command(words, wrong, option[1]) if len(option) == 2 and wrong != finding.where else ""
    return line or finding.hint


def keep_traceback(lines: Iterable[str]) -> str:
    """Write the traceback of an internal error to a new temporary file and return its path."""
    fd, path = tempfile.mkstemp(prefix="halfstep-defect-", suffix=".txt")
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.writelines(safe_text(line) for line in lines)
    return path
