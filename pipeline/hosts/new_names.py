"""The names that known_hosts did not contain when their host file was accepted, in the user's configuration folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pipeline.config.find import is_shipped_host
from pipeline.config.hosts import LoadedHost
from pipeline.hosts.address import address_of
from pipeline.hosts.pinned_keys import pinned_keys
from pipeline.hosts.ssh_names import SshNames
from pipeline.records.consents import is_confirmed, keep_consent
from remote.link.address import parse_hop
from remote.project.user_folder import user_file

RULES = "6 "
"""The version of the rules in trust.py. A confirmation that was stored under another version is not valid."""


def keep_new_names(host: LoadedHost, names: SshNames) -> None:
    """Store which names of an accepted host file known_hosts does not contain.

    The login adds the machine's host key to known_hosts. Without this record, the same file would then require a
    confirmation.
    """
    environment = names.environment
    for name, port in machine_names(host):
        if not was_new(host, name, environment, port) and not names.known_hosts_file(name, port):
            keep_consent(used_hosts(environment), line_of(host, environment), f"{name} {port}")


def was_new(host: LoadedHost, name: str, environment: Mapping[str, str], port: int | None) -> bool:
    """Return True if known_hosts did not contain the name when the host file was accepted."""
    return is_confirmed(used_hosts(environment), line_of(host, environment), f"{name} {port}")


def machine_names(host: LoadedHost) -> Iterator[tuple[str, int | None]]:
    """Yield the host's name, and the name of every machine that the host file names, with their ports."""
    address = address_of(host)
    yield host.name, host.config.port
    if not address.is_local:
        yield address.host, address.port
        yield from ((hop.host, hop.port) for hop in map(parse_hop, address.proxy_jump))


def used_hosts(environment: Mapping[str, str]) -> Path:
    """Return the file that lists the names which known_hosts did not contain when their host file was accepted."""
    return user_file("used_hosts", environment)


def line_of(host: LoadedHost, environment: Mapping[str, str] = os.environ) -> str:
    """Return a line with a digest of the host file's values and host keys, and the file's path; see `recorded_file`.

    The line is "" if no project's file names the host, so that nothing has to be confirmed.
    """
    if host.recorded_file is not None:
        return host.recorded_file
    if host.path is None or is_shipped_host(host.path):
        return ""
    return f"{_digest_of(host, environment)} {host.path.absolute()}"


def _digest_of(host: LoadedHost, environment: Mapping[str, str]) -> str:
    """Return a digest of the values in the host file, independent of comments and order.

    The keys in the file of `known_hosts:` count as values: a file of the same name may expect another machine.
    """
    text = RULES + json.dumps(host.file_values, sort_keys=True, separators=(",", ":"), default=str)
    text += "".join(f"\n{key}" for key in pinned_keys(host, environment))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
