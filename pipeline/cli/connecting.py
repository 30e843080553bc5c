"""For verbs that need both a config and a host: loads them and begins to connect before the verb's code is loaded."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from pipeline.cli.loading import load
from pipeline.hosts.pending import PendingHost
from pipeline.messages.hints import option_value, overrides_in
from pipeline.records.runs import named_run
from pipeline.work.selection import load_selection
from remote.errors import BadUsage
from remote.link.address import LOCAL
from remote.link.ssh.starter import CONNECTION
from remote.project.identity import project_of


def selected_by_run(run: str, host: str, config: str, overrides: tuple[str, ...]) -> tuple[str, str, tuple[str, ...]]:
    """Return host, config and overrides, taken from the record of a run where none of them was typed."""
    if host or config:
        return host, config, overrides
    note, _ = named_run(run, Path.cwd())
    recorded = [after for word, after in pairwise(overrides_in(note.given)) if word == "--set"]
    host, config = (option_value(note.given, name) for name in ("--host", "--config"))
    return host or note.host, config or note.config, (*recorded, *overrides)


def _given(name: str, option: str) -> str:
    if not name:
        raise BadUsage(f"Missing option '{option}'.", hint="pipeline run --help")
    return name


def select_and_connect(values: dict[str, Any], *, keep: bool) -> dict[str, Any]:
    """The verb's parameters with `host`, `config` and `overrides` replaced by a `selection` and a `pending` connection.

    `keep` False leaves no files on the host. Raises BadUsage, BadConfig.
    """
    rest = dict(values)
    typed = (rest.pop("host"), rest.pop("config"), rest.pop("overrides"))
    host, config, overrides = selected_by_run(rest["resume"], *typed) if rest.get("resume") else typed
    selection = load_selection(_given(host, "--host"), _given(config, "--config"), overrides, Path.cwd())
    project = project_of(selection.loaded.root)
    pending = PendingHost(selection.host, project, keep=keep, may_prompt=not rest["as_json"])
    if selection.host.config.host != LOCAL:
        # The handshake waits for this import. The verb's own code is imported while the handshake waits for the host.
        load(CONNECTION)
    return {**rest, "selection": selection, "pending": pending}
