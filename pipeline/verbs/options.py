"""The words that several verbs share, typed and helped once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.config.find import known_hosts, list_configs
from pipeline.records.layout import Records, project_here
from pipeline.records.runs import list_notes
from remote.policy.cards import CARDS


def host_names(incomplete: str) -> list[str]:
    """Hosts whose names begin so, those of ~/.ssh/config too, for the shell's completion."""
    return [name for name in known_hosts(Path.cwd()) if name.startswith(incomplete)]


def card_names(incomplete: str) -> list[str]:
    """Cards whose names begin so, for the shell's completion."""
    return [name for name in CARDS if name.startswith(incomplete)]


def config_names(incomplete: str) -> list[str]:
    """Configs whose names begin so, for the shell's completion."""
    return [name for name in list_configs(Path.cwd()) if name.startswith(incomplete)]


def run_names(incomplete: str) -> list[str]:
    """Runs of this project whose names begin so, for the shell's completion."""
    notes = list_notes(Records(project_here(Path.cwd())))
    return [note.run for note in notes if note.run.startswith(incomplete)]


HostName = Annotated[
    str,
    typer.Option(
        "--host", help="a file of configs/hosts, an alias of ~/.ssh/config, or local", autocompletion=host_names
    ),
]
ConfigName = Annotated[str, typer.Option("--config", help="a file of configs/, or a path", autocompletion=config_names)]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="A.B=C", help="override a key: train.learning_rate=1e-5, host.port=2222"),
]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON object on stdout, prose on stderr")]
Yes = Annotated[bool, typer.Option("--yes", help="ask nothing: what would need an answer is refused")]
Run = Annotated[
    str | None, typer.Argument(metavar="[RUN]", help="left out: the newest run here", autocompletion=run_names)
]
