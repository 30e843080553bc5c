"""The host keys that a project's host file expects of its machine: a confirmation is valid for them, not for a name."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from pipeline.config.hosts import LoadedHost
from pipeline.hosts.address import address_of
from remote.errors import HalfstepError
from remote.link.ssh.known_hosts import entries_for, parse_known_hosts
from remote.link.ssh.resolve import resolve_route

SETTINGS = ("user", "host", "port", "identity_file", "host_key", "known_hosts", "proxy_jump")
"""The settings that select the machine and the account."""


def destination_of(host: LoadedHost, environment: Mapping[str, str] | None = None) -> str:
    """Return the settings that select the machine and the account, as JSON. A confirmation is valid for these settings.

    They include the host keys in the file that `known_hosts:` names.
    """
    settings = {name: getattr(host.config, name) for name in SETTINGS}
    if keys := pinned_keys(host, os.environ if environment is None else environment):
        settings["keys"] = keys
    return json.dumps(settings, sort_keys=True, default=str)


def pinned_keys(host: LoadedHost, environment: Mapping[str, str]) -> list[str]:
    """Return the fingerprints in the file of `known_hosts:` that apply to the host, in order.

    Lines for other machines do not count, because ssh may add them to the file. If the host's name in the file cannot
    be determined, all lines count.
    """
    if not host.known_hosts_data:
        return []
    entries, _ = parse_known_hosts(host.known_hosts_data.decode("utf-8", "replace"), "")
    try:
        target = resolve_route(address_of(host), environment).target
    except HalfstepError:
        found = set(entries)
    else:
        found = {entry for name in (*target.key_names, target.host) for entry in entries_for(entries, name)}
    return sorted({f"{'@revoked ' * entry.revoked}{entry.key.fingerprint}" for entry in found})
