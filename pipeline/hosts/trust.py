"""Ask the user to confirm a project's host file that redirects a name, trains on the laptop, runs an image, or requests
secrets."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pipeline.config.find import is_path, is_shipped_host
from pipeline.config.host_model import ContainerConfig
from pipeline.config.hosts import LoadedHost
from pipeline.hosts.address import address_of
from pipeline.records.consents import is_confirmed, keep_consent
from remote.errors import BadUsage, DiskFull, HostFileUntrusted
from remote.link.address import LOCAL, Address, Hop, canonical, is_this_machine, parse_hop
from remote.link.hosts_file import listed_addresses
from remote.link.prompter import Prompter, confirms
from remote.link.ssh.aliases import is_alias, list_aliases
from remote.link.ssh.host_keys import is_known_host, own_known_hosts
from remote.link.ssh.resolve import resolve_route
from remote.link.ssh.route import ResolvedHop
from remote.project.user_folder import home, user_file
from remote.protocol.hidden import hide
from remote.protocol.shell import shell_command
from remote.protocol.text import one_line

RULES = "5 "
"""The version of the rules below. A confirmation that was stored under another version is not valid."""
LOADED = ("python", "container", "workdir")
"""The settings that decide which code an agent runs."""
REACHES = ("port", "user", "identity_file", "known_hosts", "host_key", "proxy_jump")


def require_trust(host: LoadedHost, prompter: Prompter | None, environment: Mapping[str, str] | None = None) -> None:
    """Ask the user to confirm the host file, if a confirmation is required.

    Raises HostFileUntrusted. The confirmation is stored in the user's configuration folder, never in the project. It is
    valid for these settings at this path: after a change, the user must confirm again. If there is no terminal, a file
    that reaches one of the user's machines under another name needs no confirmation, so that scripts can run `pipeline
    run` in the user's own project.
    """
    environment = os.environ if environment is None else environment
    if host.path is None or is_shipped_host(host.path):
        return
    if is_confirmed(trusted_hosts(environment), _line(host)):
        return
    used = _line_of_use(host, environment)
    if is_confirmed(used_hosts(environment), used):
        return
    reasons = list(_reasons(host, environment))
    unnamed = "" if reasons else _unnamed_machine(host, environment)
    if unnamed and prompter is not None and prompter.can_confirm():
        reasons = [unnamed]
    elif unnamed:
        return
    if not reasons:
        # After the login, the machine's host key is in known_hosts, and the file would require a confirmation. This
        # record prevents that.
        with contextlib.suppress(BadUsage, DiskFull):
            keep_consent(used_hosts(environment), used)
        return
    _confirm(host, " and ".join(reasons), prompter, environment)


def local_confirmation(
    host: LoadedHost, prompter: Prompter | None, environment: Mapping[str, str] | None = None
) -> Callable[[ResolvedHop], None] | None:
    """Return the check for a host whose SSH connection turns out to lead to this machine.

    DNS may resolve any name in a project's host file to an address of this machine. The check gets the first hop, and
    raises HostFileUntrusted unless the user confirms the file. A name is accepted if `require_trust` recognises it as
    this machine, or if ~/.ssh/config lists it or replaces it with another. Without a host file, None is returned.
    """
    environment = os.environ if environment is None else environment
    if host.path is None or is_shipped_host(host.path):
        return None

    def check(hop: ResolvedHop) -> None:
        address, name = address_of(host), hop.alias
        given = (address.host, *(parse_hop(jump).host for jump in address.proxy_jump))
        if name not in given or canonical(hop.host) != canonical(name) or name in list_aliases(environment):
            return
        is_recognised = is_this_machine(name) or listed_addresses(canonical(name))
        if not is_recognised and not is_confirmed(trusted_hosts(environment), _line(host)):
            _confirm(host, f"reaches the local machine as {name}", prompter, environment)

    return check


def _confirm(host: LoadedHost, reason: str, prompter: Prompter | None, environment: Mapping[str, str]) -> None:
    """Ask the user to confirm the host file, and store the confirmation. Raises HostFileUntrusted."""
    message = one_line(f"{host.path} {reason}")
    if not confirms(prompter, f"{host.path} {reason}", "Do you trust this file?"):
        check = shell_command("pipeline hosts check {}", host.argument or host.name)
        raise HostFileUntrusted(
            f"{message}, and you have not confirmed that; nothing was sent",
            where=str(host.path),
            hint=f"read the file, then confirm it at a terminal with: {check}",
        )
    keep_trust(host, environment)


def keep_trust(host: LoadedHost, environment: Mapping[str, str] | None = None) -> None:
    """Store that the user trusts the host file, as it is now."""
    keep_consent(trusted_hosts(os.environ if environment is None else environment), _line(host))


def trusted_address(host: LoadedHost, environment: Mapping[str, str] | None = None) -> Address:
    """Return the host's address for a connection. From now on, the values of its secrets are masked in messages.

    If the user chose the workdir, its parent folders may belong to other users of the host.
    """
    environment = os.environ if environment is None else environment
    hide(environment.get(name, "") for name in host.config.secrets)
    return replace(address_of(host), trusts_owners=_chose_workdir(host, environment))


def can_trust_owners(host: LoadedHost) -> bool:
    """Return True if the parent folders of the workdir may belong to other users once the host file is confirmed."""
    return host.path is not None and not is_shipped_host(host.path) and host.config.workdir != Address.workdir


def _chose_workdir(host: LoadedHost, environment: Mapping[str, str]) -> bool:
    """Return True if the workdir was set by `--set` or by a confirmed host file, to another value than the default."""
    if host.config.workdir == Address.workdir:
        return False
    if host.config.workdir != host.file_values.get("workdir"):
        return True
    return can_trust_owners(host) and is_confirmed(trusted_hosts(environment), _line(host))


def _line(host: LoadedHost) -> str:
    assert host.path is not None
    return f"{digest_of(host)} {host.path.absolute()}"


def _line_of_use(host: LoadedHost, environment: Mapping[str, str]) -> str:
    """Return the line for a use without a confirmation. The line contains the kind of --host: a name, path or alias.

    A name and the path of its file are judged differently, and a name can become an alias of ~/.ssh/config.
    """
    given = "path" if is_path(host.argument or host.name) else "name"
    return f"{_line(host)} by {'alias' if is_alias(host.name, environment) else given}"


def trusted_hosts(environment: Mapping[str, str]) -> Path:
    """Return the file that lists the confirmed host files. Each line has a digest and a path."""
    return user_file("trusted_hosts", environment)


def used_hosts(environment: Mapping[str, str]) -> Path:
    """Return the file that lists the host files that needed no confirmation when they were first used."""
    return user_file("used_hosts", environment)


def digest_of(host: LoadedHost) -> str:
    """Return a digest of the values in the host file, independent of comments and order."""
    text = RULES + json.dumps(host.file_values, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _reasons(host: LoadedHost, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the reasons for a confirmation as phrases after the file's name, such as "trains on the local machine"."""
    if (meaning := meaning_without_file(host, environment)) and (reached := _redirected(host, meaning, environment)):
        yield reached
    elif not meaning and (surprise := _contradicts_name(host)):
        yield surprise
    container = host.config.container if host.file_values.get("container") else None
    if container is not None and (meaning or _users_machine(host, environment)):
        yield _container_use(host, container)
    if secrets := host.file_values.get("secrets"):
        yield f"requests {', '.join(map(str, secrets))} from the local environment for {host.config.host}"


def _container_use(host: LoadedHost, container: ContainerConfig) -> str:
    """Return a phrase for the image that even `plan` starts on the user's machine, with its user and volumes."""
    settings = [f"as user {container.user}"] if container.user else []
    settings += [f"with the volumes {', '.join(container.volumes)}"] if container.volumes else []
    return " ".join([f"runs the image {container.image} on {address_of(host).host}", *settings])


def _contradicts_name(host: LoadedHost) -> str:
    """Return a phrase if a file not named `local` selects this machine, or `local` selects another one, else "".

    Also return a phrase if a file named `local` sets `python:`, `container:` or `workdir:`. A cloned project could
    contain the program that `python:` names, or the folder from which an agent loads its code.
    """
    address = address_of(host)
    if host.name == LOCAL:
        if not address.is_local:
            return f"leads to {address.host}, not the local machine"
        used = [f"{key} {host.file_values[key]}" for key in LOADED if host.file_values.get(key)]
        used = [each for each in used if each != f"workdir {Address.workdir}"]
        return f"uses {' and '.join(used)} on the local machine" if used else ""
    return "trains on the local machine" if address.is_local else ""


def _unnamed_machine(host: LoadedHost, environment: Mapping[str, str]) -> str:
    """Return a phrase if the file reaches a machine of the user that has another name than the file, else "".

    Both the target and the gateways are checked.
    """
    return "" if meaning_without_file(host, environment) else _users_machine(host, environment)


def _users_machine(host: LoadedHost, environment: Mapping[str, str]) -> str:
    """Return a phrase for the first machine of the user that the host file reaches, or ""."""
    address = address_of(host)
    hops = [] if address.is_local else [Hop(address.host, None, address.port), *map(parse_hop, address.proxy_jump)]
    for name, port in ((hop.host, hop.port) for hop in hops):
        if is_this_machine(name):
            return f"reaches the local machine as {name}"
        if found := _place_of(name, environment, port):
            return f"reaches {name} of {found}"
    return ""


def _place_of(name: str, environment: Mapping[str, str], port: int | None = None) -> str:
    """Return the file of the user or of this machine that contains the host name, or "" if no file contains it.

    Another spelling of the name, such as 127.1, counts as the name.
    """
    if is_alias(name, environment):
        return "your ~/.ssh/config"
    names = {name, canonical(name)}
    places = [folder / "known_hosts" for folder in (home(environment) / ".ssh", own_known_hosts(environment).parent)]
    known = next((str(path) for path in places for each in names if is_known_host(path, each, port)), "")
    return known or ("/etc/hosts" if any(map(listed_addresses, names)) else "")


def meaning_without_file(host: LoadedHost, environment: Mapping[str, str]) -> str:
    """Return a phrase for the machine that the host's name would select without the host file, or "" for no machine.

    The name may be an alias of ~/.ssh/config, a network name or address, or a name in known_hosts or /etc/hosts. DNS is
    not queried, because a query takes time. If --host is the path of a host file, the file's name without .yaml is
    used, but does not count as a network name. A hashed name in known_hosts is found with the file's port.
    """
    name = host.name
    if host.source.shadows:
        return f"the alias {name} of your ~/.ssh/config"
    if name == LOCAL:
        return ""
    if not is_path(host.argument or name) and ("." in name or ":" in name):
        return f"the network address {name}"
    found = _place_of(name, environment, host.config.port)
    return f"{name} in {found}" if found else ""


def _redirected(host: LoadedHost, meaning: str, environment: Mapping[str, str]) -> str:
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
        return f"logs in to {route.target.where} with {key}, not with those of {meaning}"
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
        hop.host_key,
        hop.proxy_command,
    )


def _login_keys(hop: ResolvedHop) -> tuple[object, ...]:
    return hop.identity_files, hop.identities_only, hop.agent_socket
