"""`pipeline init`: configs/ for this project, asking little."""

from __future__ import annotations

import shlex
from pathlib import Path

from fixers.frame.disk_tree import DiskTree
from pipeline.config.draft import Answers, guess_project, render_config, render_host
from pipeline.config.find import find_host, project_above
from pipeline.messages.outcome import Outcome
from pipeline.records.files import write_whole
from pipeline.records.layout import safe_name
from pipeline.show.screen import Screen
from remote.errors import BadUsage
from remote.link.address import judge_host


def init(host: str = "", name: str = "", force: bool = False, as_json: bool = False) -> int:
    """Write configs/NAME.yaml, and configs/hosts/HOST.yaml where the host has none."""
    screen = Screen(as_json=as_json)
    here = Path.cwd()
    tree = DiskTree(here)
    guess = guess_project((path, tree.read(path)) for path in tree.paths() if path.endswith((".py", ".sh")))
    name = name or screen.ask("name of the config", default=safe_name(here.name))
    host = host or screen.ask("host (an ssh alias, a name, or local)", default="local")
    for word, option in ((name, "--config"), (host, "--host")):
        if word != safe_name(word):
            raise BadUsage(
                f"{word!r} is no name: letters, digits, . _ -", where=option, hint=f"{option} {safe_name(word)}"
            )
    known = find_host(host, here).path is not None
    address = "" if known else judge_host(screen.ask(f"address or ssh alias of {host}", default=host))
    answers = Answers(name, host, address, guess.script, guess.collator, guess.launcher)
    files = {here / "configs" / f"{name}.yaml": render_config(answers)}
    if not known:
        files[here / "configs" / "hosts" / f"{host}.yaml"] = render_host(answers)
    for path in files:
        if path.exists() and not force:
            again = shlex.join(["pipeline", "init", "--host", host, "--config", name, "--force"])
            raise BadUsage(f"{path} is there already", where=str(path), hint=again)
    around = project_above(here.parent)
    if project_above(here) != here.resolve() and around in here.resolve().parents:
        screen.note(f"{around} is a project already; this folder becomes one of its own inside it")
    for path, text in files.items():
        write_whole(path, text.encode())
        screen.note(f"wrote {path.relative_to(here)}")
    screen.note(f"next: pipeline verify --host {host} --config {name}")
    outcome = Outcome("init", host=host, config=name, more={"written": [str(path) for path in files]})
    screen.closing(outcome)
    return 0
