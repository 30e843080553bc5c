"""Whether a project's host file may be used: one that redirects an ssh alias or names secrets is confirmed once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pipeline.config.find import is_shipped_host
from pipeline.config.hosts import LoadedHost
from pipeline.hosts.address import address_of
from pipeline.records.consents import consents, is_confirmed, keep_consent
from remote.errors import HostFileUntrusted
from remote.link.address import LOCAL, Address
from remote.link.prompter import Prompter
from remote.link.ssh.resolve import resolve_route
from remote.link.ssh.route import ResolvedHop

REACHES = ("port", "user", "identity_file", "known_hosts", "host_key", "proxy_jump")


def require_trust(host: LoadedHost, ask: Prompter | None, environment: Mapping[str, str] | None = None) -> None:
    """The host's file was confirmed by the user, or needs no confirmation. Raises HostFileUntrusted.

    The confirmation is kept in the user's own configuration folder, never in the project, and holds for these very
    settings at this very path: a change asks again.
    """
    environment = os.environ if environment is None else environment
    if host.path is None or is_shipped_host(host.path):
        return
    kept, line = trusted_hosts(environment), f"{digest_of(host)} {host.path.resolve()}"
    if is_confirmed(kept, line):
        return
    reasons = list(_reasons(host, environment))
    if not reasons:
        return
    words = f"{host.path} {' and '.join(reasons)}"
    if ask is None or not ask.confirm(f"{words}.\nDo you trust this file?"):
        raise HostFileUntrusted(
            f"{words}, and you have not confirmed that; nothing was sent",
            where=str(host.path),
            hint=f"read the file, then answer once at a terminal: pipeline hosts check {host.name}",
        )
    keep_consent(kept, line)


def trusted_hosts(environment: Mapping[str, str]) -> Path:
    """The user's list of confirmed host files, each as a digest and a path."""
    return consents("trusted_hosts", environment)


def digest_of(host: LoadedHost) -> str:
    """One digest of what the host's file says; comments and order do not count."""
    text = json.dumps(host.file_values, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _reasons(host: LoadedHost, environment: Mapping[str, str]) -> Iterator[str]:
    """Why the file needs a confirmation, as the ends of a sentence about it."""
    if host.source.shadows and (reached := _redirected(host, environment)):
        yield reached
    if secrets := host.file_values.get("secrets"):
        yield f"wants {', '.join(map(str, secrets))} from this machine's environment for {host.config.host}"


def _redirected(host: LoadedHost, environment: Mapping[str, str]) -> str:
    """Where the file leads instead of where the alias of its name leads; empty where both are the same machine."""
    if host.file_values.get("host") == host.name and not any(host.file_values.get(key) for key in REACHES):
        return ""
    alias = resolve_route(Address(host.name, host.name), environment)
    meant = f"not {alias.target.where}, which the alias {host.name} of your ~/.ssh/config means"
    if host.config.host == LOCAL:
        return f"means this machine, {meant}"
    route = resolve_route(address_of(host), environment)
    if [_identity(hop) for hop in route.hops] == [_identity(hop) for hop in alias.hops]:
        return ""
    if route.target.where == alias.target.where:
        return f"reaches {route.target.where} by another way or another host key than the alias {host.name}"
    return f"leads to {route.target.where}, {meant}"


def _identity(hop: ResolvedHop) -> tuple[object, ...]:
    """What decides which machine answers, and which host key it must show."""
    return (
        hop.host,
        hop.port,
        hop.user,
        hop.key_name,
        hop.known_hosts,
        hop.host_key,
        hop.proxy_command,
    )
