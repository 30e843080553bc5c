"""The host keys that a project's host file expects of its machine: a confirmation is valid for them, not for a name."""

from __future__ import annotations

import base64
import itertools
import json
import os
from collections.abc import Mapping

from pipeline.config.hosts import LoadedHost
from pipeline.hosts.address import address_of
from remote.errors import HalfstepError
from remote.link.ssh.known_hosts import Entry, entries_for, parse_known_hosts
from remote.link.ssh.resolve import resolve_route

SETTINGS = ("user", "host", "port", "identity_file", "host_key", "known_hosts", "proxy_jump")
"""The settings that select the machine and the account."""
LONGEST_LINES = 2**16
"""The size of the lines in a record: a key has at most a few KiB, and a machine has few keys."""


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
    return sorted({f"{'@revoked ' * entry.revoked}{entry.key.fingerprint}" for entry in _pinned(host, environment)})


def pinned_lines(host: LoadedHost, environment: Mapping[str, str]) -> str | None:
    """Return the lines of the file of `known_hosts:` that apply to the host, or None if no host file names such a file.

    The record of a run stores these lines, so that a later change of the file does not affect the run. If there are too
    many lines, the last ones are missing, and their keys are refused.
    """
    if host.known_hosts_data is None:
        return None
    entries = sorted(_pinned(host, environment), key=lambda entry: (not entry.revoked, entry.where))
    lines = [
        f"{'@revoked ' * entry.revoked}{entry.names} {entry.key.key_type} {base64.b64encode(entry.key.blob).decode()}\n"
        for entry in entries
    ]
    sizes = itertools.accumulate(map(len, lines))
    return "".join(line for line, size in zip(lines, sizes, strict=True) if size <= LONGEST_LINES)


def _pinned(host: LoadedHost, environment: Mapping[str, str]) -> set[Entry]:
    """Return the entries of the file of `known_hosts:` that apply to the host."""
    if not host.known_hosts_data:
        return set()
    entries, _ = parse_known_hosts(host.known_hosts_data.decode("utf-8", "replace"), "")
    try:
        target = resolve_route(address_of(host), environment).target
    except HalfstepError:
        return {entry for entry in entries if not entry.authority}
    return {entry for name in (*target.key_names, target.host) for entry in entries_for(entries, name)}
