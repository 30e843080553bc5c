"""The address of a host and its connection settings, as a plain value."""

from __future__ import annotations

import ipaddress
import re
import socket

from remote.errors import BadUsage
from remote.link.container import Container
from remote.link.hosts_file import listed_addresses
from remote.protocol.dataclass import dataclass
from remote.protocol.text import whole_number

MAX_HOST_LENGTH = 253
MAX_GATEWAYS = 8
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
IPV6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%[A-Za-z0-9_.-]{1,15})?")
USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?")
FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
LOCAL = "local"
LOCALHOST = re.compile(r"(.*\.)?localhost([46]?\.localdomain[46]?)?|localhost[46]")
"""The names of this machine on every system: RFC 6761, and the names in the `/etc/hosts` of distributions."""


@dataclass(frozen=True)
class Hop:
    """One `[user@]host[:port]` as the user wrote it; ~/.ssh/config supplies the missing parts."""

    host: str
    user: str | None = None
    port: int | None = None


@dataclass(frozen=True)
class Address:
    """The connection settings of a host, from configs/hosts/NAME.yaml. Raises BadUsage for an invalid value.

    `host` is a name, an address, an alias of ~/.ssh/config, or `local`. A setting that is None has the value that `ssh`
    would use. `destination` is the value of --host, for hints. If `trusts_owners` is True, folders above the workdir
    may belong to other users. If `trusts_keys` is True, the user chose `known_hosts` and `host_key`, which then replace
    the user's own known_hosts. `known_hosts_data` is the content of the file `known_hosts`, if it was read before. If
    `keys_are_recorded` is True, it is from the record of a run, and a key that the user has added since is valid too.
    """

    name: str
    host: str
    port: int | None = None
    user: str | None = None
    identity_file: str | None = None
    known_hosts: str | None = None
    host_key: str | None = None
    proxy_jump: tuple[str, ...] = ()
    workdir: str = "~/halfstep"
    python: str = "python3"
    container: Container | None = None
    scheduler: str | None = None
    destination: str = ""
    trusts_owners: bool = False
    trusts_keys: bool = False
    known_hosts_data: bytes | None = None
    keys_are_recorded: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "host", judge_host(self.host))
        judge_user(self.user)
        judge_port(self.port)
        for jump in self.proxy_jump:
            parse_hop(jump)
        if self.host_key is not None and not FINGERPRINT.fullmatch(self.host_key):
            raise BadUsage(
                f"host_key {self.host_key!r} is not a SHA256 fingerprint",
                where="host_key",
                hint="ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub   (on the host) prints one: SHA256:...",
            )
        if "\0" in self.workdir or "\n" in self.workdir or not self.workdir:
            raise BadUsage(f"workdir {self.workdir!r} is not a folder name", where="workdir")

    @property
    def is_local(self) -> bool:
        return self.host == LOCAL

    @property
    def python_outside_project(self) -> str:
        """The configured interpreter if it is outside the project, otherwise "".

        Such an interpreter can run the agent, since it exists before the project is uploaded.
        """
        return self.python if self.python.startswith(("/", "~/")) else ""

    @property
    def target(self) -> Hop:
        return Hop(self.host, self.user, self.port)


def is_host_name(text: str) -> bool:
    """Return True for a host name or an address without brackets."""
    return len(text) <= MAX_HOST_LENGTH and bool(HOST.fullmatch(text) or IPV6.fullmatch(text))


def judge_host(host: str) -> str:
    """Return the host without the brackets of an IPv6 address. Raises BadUsage for other special characters."""
    unbracketed = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if is_host_name(unbracketed):
        return unbracketed
    shortened = host if len(host) <= 60 else host[:57] + "..."
    why = (
        "a name with non-ASCII characters needs its xn-- form"
        if not host.isascii()
        else "use letters, digits, . _ - or an IPv6 address"
    )
    raise BadUsage(f"invalid host {shortened!r}: {why} (at most 253 characters)", where="host")


def judge_user(user: str | None) -> None:
    """Raise BadUsage if `user` is not a login name."""
    if user is not None and not USER.fullmatch(user):
        raise BadUsage(f"invalid user {user[:60]!r}: use at most 32 letters, digits, . _ -", where="user")


def judge_port(port: object) -> None:
    """Raise BadUsage if `port` is not a whole number from 1 to 65535."""
    if port is None:
        return
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535:
        raise BadUsage(f"invalid port {port!r}: expected a whole number from 1 to 65535", where="port")


def parse_hop(text: str) -> Hop:
    """Parse `[user@]host[:port]`, the syntax of ProxyJump. Raises BadUsage."""
    remainder = text.removeprefix("ssh://")
    user, at, remainder = remainder.rpartition("@")
    if at:
        judge_user(user)
    port: int | None = None
    if remainder.startswith("["):
        host, _, after_bracket = remainder.partition("]")
        host, port_text = host + "]", after_bracket.removeprefix(":")
    elif remainder.count(":") == 1:
        host, _, port_text = remainder.partition(":")
    else:
        host, port_text = remainder, ""
    if port_text:
        port = whole_number(port_text)
        if port is None:
            raise BadUsage(f"invalid port {port_text[:60]!r} in {text[:300]!r}", where="proxy_jump")
        judge_port(port)
    return Hop(judge_host(host), user if at else None, port)


def canonical(host: str) -> str:
    """Return the usual spelling of a host name or address: lower case, no final dot, and dotted numbers for IPv4.

    ssh connects to 203.0.113.9 also as 3405803785, 0xcb.0.113.9 and ::ffff:203.0.113.9.
    """
    name = host.lower().rstrip(".")
    try:
        if ":" not in name:
            return socket.inet_ntoa(socket.inet_aton(name))
        address = ipaddress.IPv6Address(name)
    except (OSError, ValueError):
        return name
    return str(address.ipv4_mapped or address)


def is_this_machine(host: str) -> bool:
    """Return True if `host` is a name or an address of this machine, loopback addresses included.

    Its names are the host name, and the names that /etc/hosts lists for its addresses. No name server is queried.
    """
    name = host.lower().rstrip(".")
    if name == socket.gethostname().lower() or LOCALHOST.fullmatch(name):
        return True
    return any(map(_is_own_address, (name, *listed_addresses(name))))


def _is_own_address(name: str) -> bool:
    try:
        # inet_aton also accepts short forms such as 127.1 and 2130706433, as ssh does.
        family, text = socket.AF_INET, socket.inet_ntoa(socket.inet_aton(name))
    except OSError:
        family, text = socket.AF_INET6, name
    if family is socket.AF_INET6 and ":" not in name:
        return False
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            one.bind((text, 0))  # A socket can only be bound to an address of this machine.
    except OSError:
        return False
    return True
