"""What `ssh NAME` would do, as a Route: asked of `ssh -G` where there is one, since only it knows Include and Match."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from remote.errors import BadUsage
from remote.link.address import Address, Hop, judge_host, parse_hop
from remote.link.ssh.lean import load
from remote.link.ssh.options import Options, account_home, ask_ssh, home
from remote.link.ssh.route import Route, Station

MAX_HOPS = 8
PLAIN = "remote.link.ssh.plain_config"
DEFAULT_IDENTITIES = ("~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519")
AskOptions = Callable[[Hop], Options]


def resolve_route(address: Address, environment: Mapping[str, str] | None = None) -> Route:
    """The stations from here to the host. What the address says wins over ~/.ssh/config. Raises BadUsage."""
    environment = os.environ if environment is None else environment
    ssh = shutil.which("ssh", path=environment.get("PATH"))
    if ssh:
        return Route(tuple(_stations(address, lambda hop: ask_ssh(ssh, hop, environment), environment)))
    plain = load(PLAIN)
    config, warnings = plain.read_plain_config(environment)
    return Route(tuple(_stations(address, lambda hop: plain.plain_options(config, hop), environment)), warnings)


def _stations(address: Address, ask: AskOptions, environment: Mapping[str, str]) -> list[Station]:
    options = ask(address.target)
    jumps = [parse_hop(jump) for jump in address.proxy_jump] or _jumps_of(options)
    target = _station(address.target, options, environment, address=address, jumped=bool(jumps))
    gateways: list[Station] = []
    while jumps:
        hop = jumps.pop()
        if len(gateways) >= MAX_HOPS:
            raise BadUsage(f"more than {MAX_HOPS} gateways on the way to {address.host}", where="proxy_jump")
        options = ask(hop)
        # Only the first of several gateways may have gateways of its own: the others are reached through it.
        jumps = jumps or _jumps_of(options)
        gateways.insert(0, _station(hop, options, environment, jumped=bool(jumps)))
    return [*gateways, target]


def _jumps_of(options: Options) -> list[Hop]:
    text = "".join(options.get("proxyjump", ()))
    return [] if text in ("", "none") else [parse_hop(word) for word in text.split(",")]


def _station(
    hop: Hop,
    options: Options,
    environment: Mapping[str, str],
    *,
    address: Address | None = None,
    jumped: bool,
) -> Station:
    here = home(environment)
    host = judge_host(_one(options, "hostname") or hop.host)
    port = hop.port or int(_one(options, "port") or 22)
    files = [_expand(path, here) for path in options.get("identityfile", DEFAULT_IDENTITIES)]
    identities_only = _one(options, "identitiesonly") == "yes"
    known = _known_hosts(options, here)
    if address and address.identity_file:
        files, identities_only = [_expand(address.identity_file, here)], True
    if address and address.known_hosts:
        known = [_expand(address.known_hosts, here)]
    command = _one(options, "proxycommand")
    timeout = _one(options, "connecttimeout")
    return Station(
        alias=hop.host,
        host=host,
        port=port,
        user=hop.user or _one(options, "user") or environment.get("USER") or getpass.getuser(),
        identity_files=tuple(dict.fromkeys(files)),
        identities_only=identities_only,
        agent_socket=_agent(options, environment, here),
        known_hosts=tuple(dict.fromkeys(known)),
        key_name=_one(options, "hostkeyalias") or (host.lower() if port == 22 else f"[{host.lower()}]:{port}"),
        host_key=address.host_key if address else None,
        proxy_command=None if jumped or command in (None, "none") else command,
        connect_timeout_s=float(timeout) if timeout and timeout.isdigit() else None,
        accept_new=_one(options, "stricthostkeychecking") == "accept-new",
    )


def _one(options: Options, key: str) -> str | None:
    values = options.get(key, ())
    return values[0] if values else None


def _known_hosts(options: Options, here: Path) -> list[str]:
    mine = [_expand(path, here) for path in _paths(options, "userknownhostsfile")] or [str(here / ".ssh/known_hosts")]
    return mine + _paths(options, "globalknownhostsfile")


def _paths(options: Options, key: str) -> list[str]:
    """Several files stand on one line; one with a space in its name stands in quotes, or alone without them."""
    text = " ".join(options.get(key, ()))
    if text and '"' not in text and Path(text).is_file():
        return [text]
    try:
        return [path for path in shlex.split(text) if path != "none"]
    except ValueError:
        return text.split()


def _agent(options: Options, environment: Mapping[str, str], here: Path) -> str | None:
    wanted = _one(options, "identityagent")
    if wanted is None or wanted == "SSH_AUTH_SOCK":
        return environment.get("SSH_AUTH_SOCK") or None
    if wanted == "none":
        return None
    if wanted.startswith("$"):
        return environment.get(wanted.strip("${}")) or None
    return _expand(wanted, here)


def _expand(path: str, here: Path) -> str:
    """ssh means the account's home by ~, whatever HOME says; here HOME counts, so that a test can have its own."""
    path = path.strip('"')
    if path == "~" or path.startswith("~/"):
        return str(here / path[2:])
    account = account_home()
    if account and str(here) != account and path.startswith(account + "/.ssh/"):
        return str(here / path[len(account) + 1 :])
    return path
