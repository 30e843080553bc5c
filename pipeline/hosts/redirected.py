"""Say where a host file leads, if the host's name without the file would lead somewhere else."""

from __future__ import annotations

from pipeline.config.hosts import LoadedHost
from pipeline.hosts.address import address_of
from pipeline.hosts.ssh_names import SshNames, identity_of, login_keys
from remote.link.ssh.resolve import resolve_route

REACHES = ("port", "user", "identity_file", "known_hosts", "host_key", "proxy_jump")


def redirected(host: LoadedHost, meaning: str, names: SshNames) -> str:
    """Return a phrase if the file selects another machine, route, host key or login than the name alone, else ""."""
    if host.file_values.get("host") == host.name and not any(host.file_values.get(key) for key in REACHES):
        return ""
    alias = names.route(host.name)
    instead = f"not {alias.target.where}, {meaning}"
    if address_of(host).is_local:
        return f"names the local machine, {instead}"
    route = resolve_route(address_of(host), names.environment)
    if [identity_of(hop) for hop in route.hops] == [identity_of(hop) for hop in alias.hops]:
        return ""
    same = route.target.where == alias.target.where
    if same and login_keys(route.target) != login_keys(alias.target):
        key = f"the key {host.config.identity_file}" if host.config.identity_file else "other keys"
        return f"logs in to {route.target.where} with {key}, not with the keys of {meaning}"
    if same:
        return f"reaches {route.target.where} by another route or with another host key than {meaning}"
    return f"leads to {route.target.where}, {instead}"
