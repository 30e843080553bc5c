"""Refuse to send what the user typed for one machine to the machine that the host file names now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.config.hosts import LoadedHost
from pipeline.config.overrides import HOST_PREFIX, host_overrides, parse_override
from pipeline.hosts.pinned_keys import destination_of
from pipeline.records.find_run import named_run
from pipeline.records.runs import read_note
from pipeline.runs.selection import DATA_PATH, PROJECT, SECRETS, is_set
from remote.errors import HostFileUntrusted

TYPED = (PROJECT, DATA_PATH, SECRETS)
"""The settings of a config that need no confirmation if the user typed them."""


def require_same_machines(run: str, hosts: Sequence[LoadedHost], overrides: Sequence[str], cwd: Path) -> None:
    """Raise HostFileUntrusted if recorded options select what is sent, and a host is not that of the record any more.

    `overrides` are the `--set` options in the record of the run. What the user typed is valid for the machine that the
    host file named then: `git pull` may have changed the file.
    """
    typed = [".".join(key) for key in TYPED if is_set(key, overrides)]
    if any(parse_override(one, HOST_PREFIX).covers(SECRETS) for one in host_overrides(overrides)):
        typed.append("host.secrets")
    if not typed:
        return
    note, records = named_run(run, cwd)
    for host in hosts:
        known = read_note(records.run(note.run, host.name))
        if known is None or not known.own or known.trust.destination != destination_of(host):
            raise HostFileUntrusted(
                f"{host.name} ({host.config.host}) is not the machine, account or host key for which you typed "
                f"{', '.join(typed)}; nothing was sent",
                where=str(host.path or host.name),
                hint=note.resume_command,
            )
