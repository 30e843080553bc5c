"""Say where a host file leads, if the host's name without the file would lead somewhere else."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.config.hosts import LoadedHost
from pipeline.hosts.address import address_of
from remote.link.address import Address
from remote.link.ssh.resolve import resolve_route
from remote.link.ssh.route import ResolvedHop

REACHES = ("port", "user", "identity_file", "known_hosts", "host_key", "proxy_jump")


def redirected(host: LoadedHost, meaning: str, environment: Mapping[str, str]) -> str:
    """Return a phrase if the file selects another machine, route, host key or login than the name alone, else ""."""
    if host.file_values.get("host") == host.name and not any(host.file_values.get(key) for key in REACHES):
        return ""
    alias = resolve_route(Address(host.name, host.name), environment)
    instead = f"not {alias.target.where}, {meaning}"
    if address_of(host).is_local:
        return f"names the local machine, {instead}"
    route = resolve_route(address_of(host), environment)
    if [_identity(hop) for hop in route.hops] == [_identity(hop) for hop in alias.hops]:
        return ""
    same = route.target.where == alias.target.where
    if same and _login_keys(route.target) != _login_keys(alias.target):
        key = f"the key {host.config.identity_file}" if host.config.identity_file else "other keys"
        return f"logs in to {route.target.where} with {key}, not with the keys of {meaning}"
    if same:
        return f"reaches {route.target.where} by another route or with another host key than {meaning}"
    return f"leads to {route.target.where}, {instead}"


def _identity(hop: ResolvedHop) -> tuple[object, ...]:
    """Return the settings that determine the machine, its expected host key and the login.

    A server may run another command, or be another container, for each login key.
    """
    return (
        *_login_keys(hop),
        hop.host,
        hop.port,
        hop.user,
        hop.key_name,
        hop.known_hosts,
        hop.known_hosts_command,
        hop.host_key,
        hop.proxy_command,
    )


def _login_keys(hop: ResolvedHop) -> tuple[object, ...]:
    return hop.identity_files, hop.identities_only, hop.agent_socket
