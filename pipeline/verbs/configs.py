"""`pipeline configs`: list every config, each with a command that uses the config."""

from __future__ import annotations

from pathlib import Path

from pipeline.config.document import read_document
from pipeline.config.find import list_configs
from pipeline.config.model import RunConfig
from pipeline.config.problems import validate
from pipeline.config.shipped import place_of
from pipeline.messages.outcome import Outcome
from pipeline.show.screen import Screen
from remote.errors import HalfstepError
from remote.protocol.regular import open_regular
from remote.protocol.shell import shell_command

FIRST_LINE_BYTES = 4096


def configs(as_json: bool = False) -> int:
    """List the project's configs, then the configs that come with halfstep."""
    screen = Screen(as_json=as_json)
    cwd = Path.cwd()
    found = list_configs(cwd)
    rows = [(name, _first_comment(path) or _use(name, path), str(path)) for name, path in found.items()]
    if not as_json:
        shown = [(name, use, place_of(Path(file), cwd)) for name, use, file in rows]
        screen.table(("config", "how it is used", "file"), shown)
    screen.closing(Outcome("configs", more={"configs": [{"name": n, "use": u, "file": f} for n, u, f in rows]}))
    return 0


def _use(name: str, path: Path) -> str:
    try:
        validate(RunConfig, read_document(path))
    except HalfstepError:
        return "not a valid config"
    return shell_command("pipeline run --host HOST --config {}", name)


def _first_comment(path: Path) -> str:
    try:
        with open_regular(path, follow=True) as file:
            start = file.read(FIRST_LINE_BYTES)
    except OSError:
        return ""
    first = next(iter(start.decode("utf-8", "replace").splitlines()), "")
    return first.lstrip("# ") if first.startswith("#") else ""
