"""`pipeline configs`: list every config, each with a command that uses the config."""

from __future__ import annotations

import re
from pathlib import Path

from fixers.sources.by_content import by_content
from pipeline.config.document import parse_document, read_config
from pipeline.config.find import list_configs
from pipeline.config.model import RunConfig
from pipeline.config.problems import is_valid
from pipeline.config.read_limit import NOT_READ, beyond_limit
from pipeline.config.shipped import place_of
from pipeline.messages.outcome import Outcome
from pipeline.show.screen import Screen
from remote.errors import HalfstepError
from remote.protocol.shell import shell_command

FIRST_LINE_BYTES = 4096
NO_CONFIG = "not a valid config"
COMMAND = re.compile(r"pipeline run --host [\w-]{1,64} (?:--config|-c) [\w.-]{1,64}", re.ASCII)
PROGRAM = re.compile(r"pipeline|--\w|[`$;|&<>]")
"""Matches what a comment has in common with a command."""


def configs(as_json: bool = False) -> int:
    """List the project's configs, then the configs that come with halfstep."""
    screen = Screen(as_json=as_json)
    cwd = Path.cwd()
    found = list_configs(cwd)
    beyond = beyond_limit(found.values())
    rows = [(name, NOT_READ if path in beyond else _use(name, path), str(path)) for name, path in found.items()]
    if not as_json:
        shown = [(name, use, place_of(Path(file), cwd)) for name, use, file in rows]
        screen.table(("config", "how it is used", "file"), shown)
    screen.closing(Outcome("configs", more={"configs": [{"name": n, "use": u, "file": f} for n, u, f in rows]}))
    return 0


def _use(name: str, path: Path) -> str:
    """Return the comment in the first line of the config, else a command that uses the config.

    A comment with another command than `pipeline run --host HOST --config NAME` is not returned: beside halfstep's own
    commands, it would look like one of them.
    """
    try:
        data = read_config(path)
    except (HalfstepError, OSError):
        return NO_CONFIG
    if (comment := _first_comment(data)) and (COMMAND.fullmatch(comment) or not PROGRAM.search(comment)):
        return comment
    return shell_command("pipeline run --host HOST --config {}", name) if _is_config(data) else NO_CONFIG


@by_content
def _is_config(data: bytes) -> bool:
    try:
        return is_valid(RunConfig, parse_document("", data))
    except HalfstepError:
        return False


def _first_comment(data: bytes) -> str:
    first = next(iter(data[:FIRST_LINE_BYTES].decode("utf-8", "replace").splitlines()), "")
    return first.lstrip("# ") if first.startswith("#") else ""
