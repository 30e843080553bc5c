"""The route to a host: its gateways in order, then the target, as plain values."""

from __future__ import annotations

from remote.link.address import canonical
from remote.protocol.dataclass import dataclass

MAX_KNOWN_HOSTS = 16 * 2**20
MAX_PROJECT_KNOWN_HOSTS = 2**20
"""The largest file that `known_hosts:` of a host file may name: a project may contain both."""
PASSWORD_TRIES = 3


@dataclass(frozen=True)
class ResolvedHop:
    """One SSH server of a route, as resolved by `ssh -G`.

    `key_name` is its name in known_hosts; `host_key` is the fingerprint that the host file pins.
    A file of `known_hosts` has at most `known_hosts_limit` bytes. `known_hosts_data` is its content, if it was read,
    and `keys_are_recorded` is True if it is from the record of a run.
    `has_pins`: the host's settings include `known_hosts` or `host_key`. `users_known_hosts` are then the files that ssh
    would read, possibly none. The @revoked lines of these files, of the output of KnownHostsCommand and of halfstep's
    file apply, and if `trusts_keys` is False, their keys for this server too.
    `revoked_keys` are the files of RevokedHostKeys, and `known_hosts_command` the words of KnownHostsCommand.
    `accept_new` and `strict` are StrictHostKeyChecking `accept-new` and `yes`, `batch` is BatchMode. `methods` are the
    permitted methods of the login, in order: PreferredAuthentications without those that PubkeyAuthentication,
    PasswordAuthentication or KbdInteractiveAuthentication switches off. `password_tries` is NumberOfPasswordPrompts.
    `destination` is the value of --host, for hints; all hops of a route have the same value.
    """

    alias: str
    host: str
    port: int = 22
    user: str = ""
    identity_files: tuple[str, ...] = ()
    identities_only: bool = False
    agent_socket: str | None = None
    known_hosts: tuple[str, ...] = ()
    known_hosts_limit: int = MAX_KNOWN_HOSTS
    known_hosts_data: bytes | None = None
    keys_are_recorded: bool = False
    has_pins: bool = False
    users_known_hosts: tuple[str, ...] = ()
    trusts_keys: bool = False
    known_hosts_command: tuple[str, ...] = ()
    revoked_keys: tuple[str, ...] = ()
    key_name: str = ""
    host_key: str | None = None
    proxy_command: str | None = None
    connect_timeout_s: float | None = None
    accept_new: bool = False
    strict: bool = False
    batch: bool = False
    methods: tuple[str, ...] = ("publickey", "keyboard-interactive", "password")
    password_tries: int = PASSWORD_TRIES
    destination: str = ""
    is_target: bool = True

    @property
    def key_names(self) -> tuple[str, ...]:
        """`key_name`, and the same address in its usual spelling: 127.0.0.1 for 127.1."""
        usual = self.key_name == known_hosts_name(self.host, self.port)
        return tuple(dict.fromkeys((self.key_name, known_hosts_name(canonical(self.host), self.port))[: 1 + usual]))

    @property
    def where(self) -> str:
        """`user@host:port`, for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user}@{host}:{self.port}"


@dataclass(frozen=True)
class Route:
    """The hops in connection order, and warnings about ssh options that have no effect."""

    hops: tuple[ResolvedHop, ...]
    warnings: tuple[str, ...] = ()

    @property
    def target(self) -> ResolvedHop:
        return self.hops[-1]


def known_hosts_name(host: str, port: int) -> str:
    """Return the name of a server in known_hosts: `host`, or `[host]:port` if the port is not 22."""
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"
