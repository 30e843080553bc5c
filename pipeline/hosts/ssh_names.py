"""What `ssh NAME` would do without a host file: which settings it has for the name, and where the name is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from remote.errors import BadUsage, HostKeyRefused
from remote.link.address import Address, canonical
from remote.link.ssh.host_keys import is_known_host, is_known_machine, own_known_hosts
from remote.link.ssh.known_hosts_command import OPTION, run_known_hosts_command
from remote.link.ssh.resolve import SYSTEM_KNOWN_HOSTS, resolve_route
from remote.link.ssh.route import ResolvedHop, Route
from remote.project.user_folder import home

CONFIGURATION = "your ssh configuration"
COMMAND_OUTPUT = f"the output of {OPTION}"
UNUSED = "halfstep-unused-name"
"""The name of no machine. `ssh -G` prints the settings that ssh has for every name."""
UNUSED_DOMAIN = ".invalid"
"""The end of the name if it is compared with a name that contains dots, see RFC 6761."""


class SshNames:
    """Resolves names as ssh does without a host file. `ssh -G` and KnownHostsCommand run at most once for each name."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self._routes: dict[str, Route | BadUsage] = {}
        self._known: dict[tuple[str, int | None], str] = {}

    def route(self, name: str) -> Route:
        """Return the route of `ssh NAME`. Raises BadUsage, CannotConnect."""
        if name not in self._routes:
            try:
                self._routes[name] = resolve_route(Address(name, name), self.environment)
            except BadUsage as error:
                self._routes[name] = error
        found = self._routes[name]
        if isinstance(found, BadUsage):
            raise found
        return found

    def has_settings(self, name: str) -> bool:
        """Return True if ssh resolves the name differently from a name of no machine.

        Only the settings count that select the machine, its expected host key or the login. Raises CannotConnect.
        """
        return self._settings(name, name) != self._settings(_unused(name), name)

    def known_hosts_file(self, name: str, port: int | None) -> str:
        """Return the known_hosts file that contains the name, COMMAND_OUTPUT, or "".

        The files are the usual ones, and those that the login to this name would read. The name may have another
        spelling there, such as 127.1, or be the host name that ssh derives from it. Raises CannotConnect.
        """
        if (name, port) not in self._known:
            names = {name, canonical(name)}
            users, own = home(self.environment) / ".ssh/known_hosts", own_known_hosts(self.environment)
            usual = _containing([users, own, *map(Path, SYSTEM_KNOWN_HOSTS)], names, {port})
            self._known[name, port] = usual or self._known_to_ssh(name, names, port)
        return self._known[name, port]

    def _known_to_ssh(self, name: str, names: set[str], port: int | None) -> str:
        try:
            target = self.route(name).target
        except BadUsage:
            return ""
        # A host name that ssh uses for every name is not the machine of this name.
        if canonical(target.host) not in names and target.host != self._unused_host(name):
            names = {*names, target.host, canonical(target.host)}
        ports = {port, target.port}
        places = [own_known_hosts(self.environment), *map(Path, target.known_hosts)]
        return _containing(places, names, ports) or self._printed(target, names, ports)

    def _printed(self, target: ResolvedHop, names: set[str], ports: set[int | None]) -> str:
        """Return COMMAND_OUTPUT if the command prints a key of the machine. If it fails, ssh would not log in."""
        try:
            printed, _ = run_known_hosts_command(target, None, self.environment)
        except HostKeyRefused:
            return ""
        found = any(is_known_machine(printed, name, port) for name in names for port in ports)
        return COMMAND_OUTPUT if found else ""

    def _unused_host(self, name: str) -> str:
        try:
            return self.route(_unused(name)).target.host
        except BadUsage:
            return ""

    def _settings(self, asked: str, name: str) -> str:
        """Return the settings of a route as text, with `name` in place of the name `asked`, or "" if ssh refuses it."""
        try:
            *gateways, target = self.route(asked).hops
        except BadUsage:
            return ""
        if canonical(target.host) == canonical(asked):
            # ssh writes 127.1 as 127.0.0.1.
            key_name = target.key_name.replace(target.host.lower(), asked.lower())
            target = replace(target, host=asked, key_name=key_name)
        text = repr([identity_of(hop) for hop in (*gateways, target)]).lower()
        return text.replace(asked.lower(), name.lower())


def identity_of(hop: ResolvedHop) -> tuple[object, ...]:
    """Return the settings that determine the machine, its expected host key and the login.

    A server may run another command, or be another container, for each login key.
    """
    return (
        *login_keys(hop),
        hop.host,
        hop.port,
        hop.user,
        hop.key_name,
        hop.known_hosts,
        hop.known_hosts_command,
        hop.host_key,
        hop.proxy_command,
    )


def login_keys(hop: ResolvedHop) -> tuple[object, ...]:
    """Return the settings that select the keys of the login."""
    return hop.identity_files, hop.identities_only, hop.agent_socket


def _unused(name: str) -> str:
    return UNUSED + (UNUSED_DOMAIN if "." in name or ":" in name else "")


def _containing(places: Iterable[Path], names: set[str], ports: set[int | None]) -> str:
    return next(
        (
            str(path)
            for path in dict.fromkeys(places)
            for name in names
            for port in ports
            if is_known_host(path, name, port)
        ),
        "",
    )
