"""How an error reaches the user: what, where, and one thing to type; under --json as the one object."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import replace

from pipeline.messages.errors import outcome_of_error
from pipeline.messages.hints import given_in, typed_with
from pipeline.show.screen import Screen
from remote.errors import HalfstepError
from remote.protocol.text import safe_text


def tell(words: list[str], error: HalfstepError) -> None:
    """The error is on stderr, or is the JSON object where `--json` was typed."""
    command = next((word for word in words if not word.startswith("-")), "")
    host, config = (error.about.get(name) or after(words, f"--{name}") for name in ("host", "config"))
    told = outcome_of_error(command, meant(words, error))
    outcome = replace(told, host=host, config=config, run=error.about.get("run", ""), given=given_in(words))
    Screen(as_json="--json" in words, on_stderr=True).closing(outcome)


def meant(words: list[str], error: HalfstepError) -> HalfstepError:
    """The error; its hint is the line that was typed with the word that was meant, where it knows one."""
    line = typed_with(words, *error.instead) if error.instead else ""
    error.hint = line or error.hint
    return error


def after(words: list[str], option: str) -> str:
    """What was typed for an option, as `--option word` or `--option=word`; empty where it was not."""
    for at, word in enumerate(words):
        if word == option and at + 1 < len(words):
            return words[at + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return ""


def keep_traceback(lines: Iterable[str]) -> str:
    """The path of a new file that holds the traceback of a defect of ours, fit for a terminal."""
    fd, path = tempfile.mkstemp(prefix="halfstep-defect-", suffix=".txt")
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.writelines(safe_text(line) for line in lines)
    return path
