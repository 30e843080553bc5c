"""For verbs that need both a config and a host: loads them and begins to connect before the verb's code is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.cli.loading import load
from pipeline.hosts.pending import PendingHost
from pipeline.work.selection import load_selection
from remote.link.address import LOCAL
from remote.link.ssh.starter import CONNECTION
from remote.project.identity import project_of


def select_and_connect(values: dict[str, Any], *, keep: bool) -> dict[str, Any]:
    """The verb's parameters with `host`, `config` and `overrides` replaced by a `selection` and a `pending` connection.

    `keep` False leaves no files on the host. Raises BadUsage, BadConfig.
    """
    rest = dict(values)
    selection = load_selection(rest.pop("host"), rest.pop("config"), rest.pop("overrides"), Path.cwd())
    may_prompt = not (rest["as_json"] or rest.get("yes"))
    pending = PendingHost(selection.host, project_of(selection.loaded.root), keep=keep, may_prompt=may_prompt)
    if selection.host.config.host != LOCAL:
        # The handshake waits for this import. The verb's own code is imported while the handshake waits for the host.
        load(CONNECTION)
    return {**rest, "selection": selection, "pending": pending}
