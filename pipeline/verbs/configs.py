"""`pipeline configs`: list every config, with a command that uses it."""

from __future__ import annotations

from pathlib import Path

from pipeline.config.find import list_configs
from pipeline.messages.outcome import Outcome
from pipeline.show.screen import Screen


def configs(as_json: bool = False) -> int:
    """List the project's configs, then the configs that come with halfstep."""
    screen = Screen(as_json=as_json)
    rows = [(name, _first_comment(path), str(path)) for name, path in list_configs(Path.cwd()).items()]
    if not as_json:
        screen.table(("config", "how it is used", "file"), rows)
    screen.closing(Outcome("configs", more={"configs": [{"name": n, "use": u, "file": f} for n, u, f in rows]}))
    return 0


def _first_comment(path: Path) -> str:
    first = next(iter(path.read_text("utf-8", "replace").splitlines()), "")
    return first.lstrip("# ") if first.startswith("#") else ""
