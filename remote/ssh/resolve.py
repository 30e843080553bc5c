"""What `ssh NAME` would do, as a Route: asked of `ssh -G` where there is one, since only it knows Include and Match."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from remote.address import Address, Hop, judge_host, parse_hop
from remote.errors import BadUsage, CannotConnect
from remote.ssh.route import Route, Station

MAX_HOPS = 8
SSH_G_TIMEOUT_S = 10.0
Options = Mapping[str, tuple[str, ...]]
AskOptions = Callable[[Hop], Options]
"""The options ssh has for a hop, keys in lower case."""


def resolve_route(address: Address, environment: Mapping[str, str] | None = None) -> Route:
    """The stations from here to the host. What the address says wins over ~/.ssh/config. Raises BadUsage."""
    environment = os.environ if environment is None else environment
    ssh = shutil.which("ssh", path=environment.get("PATH"))
    warnings: list[str] = []
    if ssh:
        ask = lambda hop: ask_ssh(ssh, hop, environment)  # noqa: E731
    else:
        warnings.append("no `ssh` here: ~/.ssh/config was not read; Host, Include and Match have no effect")
        ask = lambda hop: {}  # noqa: E731
    return Route(tuple(_stations(address, ask, environment)), tuple(warnings))


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
        before = [] if jumps else _jumps_of(options)
        jumps = before or jumps
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
    known = [_expand(path, here) for path in " ".join(options.get("userknownhostsfile", ())).split()]
    known = known or [str(here / ".ssh/known_hosts")]
    known += " ".join(options.get("globalknownhostsfile", ())).split()
    identities_only = _one(options, "identitiesonly") == "yes"
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
        user=hop.user or _one(options, "user") or _login(environment),
        identity_files=tuple(dict.fromkeys(files)),
        identities_only=identities_only,
        agent_socket=_agent(options, environment, here),
        known_hosts=tuple(dict.fromkeys(known)),
        key_name=_one(options, "hostkeyalias") or _key_name(host, port),
        host_key=address.host_key if address else None,
        proxy_command=None if jumped or command in (None, "none") else command,
        connect_timeout_s=float(timeout) if timeout and timeout.isdigit() else None,
        accept_new=_one(options, "stricthostkeychecking") == "accept-new",
    )


DEFAULT_IDENTITIES = ("~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519")


def _one(options: Options, key: str) -> str | None:
    values = options.get(key, ())
    return values[0] if values else None


def _key_name(host: str, port: int) -> str:
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


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
    if path == "~" or path.startswith("~/"):
        return str(here / path[2:])
    passwd_home = _passwd_home()
    if passwd_home and str(here) != passwd_home and path.startswith(passwd_home + "/.ssh/"):
        return str(here / path[len(passwd_home) + 1 :])
    return path


def home(environment: Mapping[str, str]) -> Path:
    """The home folder: HOME where it is set, else the account's."""
    return Path(environment.get("HOME") or _passwd_home() or "/")


def _passwd_home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def _login(environment: Mapping[str, str]) -> str:
    return environment.get("USER") or getpass.getuser()


def ask_ssh(ssh: str, hop: Hop, environment: Mapping[str, str]) -> Options:
    """What `ssh -G` says about a hop. HOME decides which ~/.ssh/config is read; HALFSTEP_SSH_CONFIG names another."""
    argv = [ssh, "-G", *_config_file(environment)]
    if hop.user:
        argv += ["-l", hop.user]
    if hop.port:
        argv += ["-p", str(hop.port)]
    try:
        done = subprocess.run(
            [*argv, "--", hop.host],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=SSH_G_TIMEOUT_S,
            check=False,
            env=dict(environment),
        )
    except subprocess.TimeoutExpired:
        raise CannotConnect(
            f"`ssh -G {hop.host}` did not answer in {SSH_G_TIMEOUT_S:.0f} s: a `Match exec` in ~/.ssh/config hangs",
            where="~/.ssh/config",
        ) from None
    if done.returncode != 0:
        words = done.stderr.decode("utf-8", "replace").strip()
        raise BadUsage(f"ssh does not understand its configuration: {words}", where="~/.ssh/config")
    return parse_options(done.stdout.decode("utf-8", "surrogateescape"))


def _config_file(environment: Mapping[str, str]) -> list[str]:
    named = environment.get("HALFSTEP_SSH_CONFIG")
    if named:
        return ["-F", named]
    here = home(environment)
    if str(here) == _passwd_home():
        return []
    theirs = here / ".ssh/config"
    return ["-F", str(theirs) if theirs.is_file() else "none"]


def parse_options(text: str) -> Options:
    """`ssh -G`'s lines as a mapping; a key that stands on several lines has several values."""
    options: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if value:
            options[key.lower()] = (*options.get(key.lower(), ()), value)
    return options
