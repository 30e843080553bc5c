"""Resolve the route of `ssh NAME` with `ssh -G`, or with paramiko's parser if OpenSSH is not installed."""

from __future__ import annotations

import getpass
import importlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from remote.errors import BadUsage
from remote.link.address import MAX_GATEWAYS, Address, Hop, judge_host, parse_hop
from remote.link.ssh.options import Options, expand_home, read_ssh_options
from remote.link.ssh.route import (
    MAX_KNOWN_HOSTS,
    MAX_PROJECT_KNOWN_HOSTS,
    PASSWORD_TRIES,
    ResolvedHop,
    Route,
    known_hosts_name,
)
from remote.project.user_folder import home
from remote.protocol.text import whole_number

PLAIN = "remote.link.ssh.plain_config"
DEFAULT_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
SYSTEM_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
DEFAULT_IDENTITIES = ("~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519")
METHODS = {
    "publickey": "pubkeyauthentication",
    "keyboard-interactive": "kbdinteractiveauthentication",
    "password": "passwordauthentication",
}
"""Each method of a login with the option that can switch it off, in the order of ssh."""
ReadOptions = Callable[[Hop], Options]


def resolve_route(address: Address, environment: Mapping[str, str] | None = None) -> Route:
    """Return the route to the host. Settings of `address` take precedence over ~/.ssh/config.

    Raises BadUsage, CannotConnect.
    """
    environment = os.environ if environment is None else environment
    ssh = shutil.which("ssh", path=environment.get("PATH"))
    if ssh:
        return Route(tuple(_hops(address, lambda hop: read_ssh_options(ssh, hop, environment), environment)))
    plain = importlib.import_module(PLAIN)
    config, warnings = plain.read_plain_config(environment)
    return Route(tuple(_hops(address, lambda hop: plain.plain_options(config, hop), environment)), warnings)


def _hops(address: Address, read_options: ReadOptions, environment: Mapping[str, str]) -> list[ResolvedHop]:
    options = read_options(address.target)
    jumps = [parse_hop(jump) for jump in address.proxy_jump] or _jumps_of(options)
    target = _hop(address.target, options, environment, address, is_target=True, jumped=bool(jumps))
    gateways: list[ResolvedHop] = []
    while jumps:
        hop = jumps.pop()
        if len(gateways) >= MAX_GATEWAYS:
            raise BadUsage(f"more than {MAX_GATEWAYS} gateways on the route to {address.host}", where="proxy_jump")
        options = read_options(hop)
        # Like ssh, use the ProxyJump option only of the first gateway of a list.
        jumps = jumps or _jumps_of(options)
        gateways.insert(0, _hop(hop, options, environment, address, is_target=False, jumped=bool(jumps)))
    return [*gateways, target]


def _jumps_of(options: Options) -> list[Hop]:
    text = "".join(options.get("proxyjump", ()))
    return [] if text in ("", "none") else [parse_hop(word) for word in text.split(",")]


# complex: one default per option of ssh_config
def _hop(
    hop: Hop,
    options: Options,
    environment: Mapping[str, str],
    address: Address,
    *,
    is_target: bool,
    jumped: bool,
) -> ResolvedHop:
    folder = home(environment)
    host = judge_host(_first_value(options, "hostname") or hop.host)
    port = hop.port or int(_first_value(options, "port") or 22)
    # The identity, the known hosts and the pinned key of the host file apply only to the target.
    identity_file, known_hosts = (address.identity_file, address.known_hosts) if is_target else (None, None)
    files = (identity_file,) if identity_file else options.get("identityfile", DEFAULT_IDENTITIES)
    users = tuple(dict.fromkeys(_known_hosts(options, folder)))
    pinned = address.host_key if is_target else None
    has_pins = bool(known_hosts or pinned)
    replaces_command = bool(known_hosts) and address.trusts_keys
    return ResolvedHop(
        alias=hop.host,
        host=host,
        port=port,
        user=hop.user or _user(options, environment),
        identity_files=tuple(dict.fromkeys(expand_home(path, folder) for path in files)),
        identities_only=bool(identity_file) or _first_value(options, "identitiesonly") == "yes",
        agent_socket=_agent(options, environment, folder),
        known_hosts=(expand_home(known_hosts, folder),) if known_hosts else users,
        known_hosts_limit=MAX_PROJECT_KNOWN_HOSTS if known_hosts else MAX_KNOWN_HOSTS,
        known_hosts_data=address.known_hosts_data if known_hosts else None,
        keys_are_recorded=address.keys_are_recorded and bool(known_hosts),
        has_pins=has_pins,
        users_known_hosts=users if has_pins else (),
        trusts_keys=address.trusts_keys,
        known_hosts_command=() if replaces_command else _values(options, "knownhostscommand"),
        revoked_keys=tuple(expand_home(path, folder) for path in _values(options, "revokedhostkeys")),
        key_name=_first_value(options, "hostkeyalias") or known_hosts_name(host, port),
        host_key=pinned,
        proxy_command=None if jumped else _proxy_command(options),
        connect_timeout_s=_seconds(_first_value(options, "connecttimeout") or ""),
        accept_new=_first_value(options, "stricthostkeychecking") == "accept-new",
        strict=_first_value(options, "stricthostkeychecking") in ("yes", "true"),
        batch=_first_value(options, "batchmode") in ("yes", "true"),
        methods=_methods(options),
        password_tries=_password_tries(options),
        destination=address.destination or address.name,
        is_target=is_target,
    )


def _methods(options: Options) -> tuple[str, ...]:
    """Return the permitted methods, in the order of PreferredAuthentications."""
    preferred = _first_value(options, "preferredauthentications")
    names = METHODS if preferred is None else dict.fromkeys(preferred.replace(" ", "").split(","))
    return tuple(
        name for name in names if name in METHODS and _first_value(options, METHODS[name]) not in ("no", "false")
    )


def _seconds(value: str) -> float | None:
    """Return the seconds, or None for `none` and an empty value."""
    seconds = whole_number(value)
    return None if seconds is None else float(seconds)


def _password_tries(options: Options) -> int:
    tries = whole_number((_first_value(options, "numberofpasswordprompts") or "")[:4])
    return PASSWORD_TRIES if tries is None else tries


def _user(options: Options, environment: Mapping[str, str]) -> str:
    return _first_value(options, "user") or environment.get("USER") or getpass.getuser()


def _proxy_command(options: Options) -> str | None:
    command = _first_value(options, "proxycommand")
    return None if command == "none" else command


def _first_value(options: Options, key: str) -> str | None:
    values = options.get(key, ())
    return values[0] if values else None


def _values(options: Options, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    values = options.get(key, default)
    return () if [value.lower() for value in values] == ["none"] else values


def _known_hosts(options: Options, folder: Path) -> list[str]:
    files = _values(options, "userknownhostsfile", DEFAULT_KNOWN_HOSTS)
    return [
        *(expand_home(path, folder) for path in files),
        *_values(options, "globalknownhostsfile", SYSTEM_KNOWN_HOSTS),
    ]


def _agent(options: Options, environment: Mapping[str, str], folder: Path) -> str | None:
    value = _first_value(options, "identityagent")
    if value is None or value == "SSH_AUTH_SOCK":
        return environment.get("SSH_AUTH_SOCK") or None
    if value == "none":
        return None
    if value.startswith("$"):
        return environment.get(value.strip("${}")) or None
    return expand_home(value, folder)
