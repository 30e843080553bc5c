"""Resolve the route of `ssh NAME` with `ssh -G`, or with paramiko's parser if OpenSSH is not installed."""

from __future__ import annotations

import getpass
import importlib
import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from remote.errors import BadUsage
from remote.link.address import Address, Hop, judge_host, parse_hop
from remote.link.ssh.options import Options, read_ssh_options
from remote.link.ssh.route import ResolvedHop, Route
from remote.project.user_folder import account_home, home
from remote.protocol.text import line_fields

MAX_HOPS = 8
PLAIN = "remote.link.ssh.plain_config"
DEFAULT_IDENTITIES = ("~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519")
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
        if len(gateways) >= MAX_HOPS:
            raise BadUsage(f"more than {MAX_HOPS} gateways on the route to {address.host}", where="proxy_jump")
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
    known = [_expand(known_hosts, folder)] if known_hosts else _known_hosts(options, folder)
    timeout = _first_value(options, "connecttimeout") or ""
    return ResolvedHop(
        alias=hop.host,
        host=host,
        port=port,
        user=hop.user or _user(options, environment),
        identity_files=tuple(dict.fromkeys(_expand(path, folder) for path in files)),
        identities_only=bool(identity_file) or _first_value(options, "identitiesonly") == "yes",
        agent_socket=_agent(options, environment, folder),
        known_hosts=tuple(dict.fromkeys(known)),
        revoked_keys=tuple(_expand(path, folder) for path in options.get("revokedhostkeys", ()) if path != "none"),
        key_name=_first_value(options, "hostkeyalias") or known_hosts_name(host, port),
        host_key=address.host_key if is_target else None,
        proxy_command=None if jumped else _proxy_command(options),
        connect_timeout_s=float(timeout) if timeout.isdigit() else None,
        accept_new=_first_value(options, "stricthostkeychecking") == "accept-new",
        destination=address.destination or address.name,
        is_target=is_target,
    )


def known_hosts_name(host: str, port: int) -> str:
    """Return the name of a server in known_hosts: `host`, or `[host]:port` if the port is not 22."""
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


def _user(options: Options, environment: Mapping[str, str]) -> str:
    return _first_value(options, "user") or environment.get("USER") or getpass.getuser()


def _proxy_command(options: Options) -> str | None:
    command = _first_value(options, "proxycommand")
    return None if command == "none" else command


def _first_value(options: Options, key: str) -> str | None:
    values = options.get(key, ())
    return values[0] if values else None


def _known_hosts(options: Options, folder: Path) -> list[str]:
    user_files = [_expand(path, folder) for path in _paths(options, "userknownhostsfile")] or [
        str(folder / ".ssh/known_hosts")
    ]
    return user_files + _paths(options, "globalknownhostsfile")


def _paths(options: Options, key: str) -> list[str]:
    """Split several paths on one line. A path with spaces must be quoted or be the only path on its line."""
    text = " ".join(options.get(key, ()))
    if text and '"' not in text and Path(text).is_file():
        return [text]
    try:
        return [path for path in shlex.split(text) if path != "none"]
    except ValueError:
        return line_fields(text)


def _agent(options: Options, environment: Mapping[str, str], folder: Path) -> str | None:
    value = _first_value(options, "identityagent")
    if value is None or value == "SSH_AUTH_SOCK":
        return environment.get("SSH_AUTH_SOCK") or None
    if value == "none":
        return None
    if value.startswith("$"):
        return environment.get(value.strip("${}")) or None
    return _expand(value, folder)


def _expand(path: str, folder: Path) -> str:
    """Expand ~ to `folder`, the value of HOME. Also replaces the account's home folder, which `ssh -G` writes for ~."""
    path = path.strip('"')
    if path == "~" or path.startswith("~/"):
        return str(folder / path[2:])
    account = account_home()
    if account and str(folder) != account and path.startswith(account + "/.ssh/"):
        return str(folder / path[len(account) + 1 :])
    return path
