"""One SSH connection with verified host keys. Each hop is a fabric.Connection through the previous hop."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import fabric
import paramiko

from remote.errors import AuthRefused, CannotConnect, ConnectionLost, HalfstepError, HungUp, SessionRefused
from remote.link.prompter import Prompter
from remote.link.ssh.channel_stream import ChannelStream
from remote.link.ssh.fast_paths import transport_class
from remote.link.ssh.handshake_errors import handshake_error
from remote.link.ssh.host_keys import KnownHosts, read_known_hosts, verify_host_key
from remote.link.ssh.known_hosts import HostKey
from remote.link.ssh.login import LoginStrategy
from remote.link.ssh.monitored_socket import MonitoredSocket, SocketLike
from remote.link.ssh.preconnect import IDENTIFICATION, connect_first_hop
from remote.link.ssh.route import ResolvedHop, Route
from remote.link.ssh.sockets import Timeouts, leads_to_this_machine
from remote.link.ssh.transport import EarlyRequest, SshTransport
from remote.link.ssh.watchdog import Watchdog
from remote.protocol.dataclass import dataclass

CONNECTION_ERRORS = (paramiko.SSHException, EOFError, OSError)


class StrictHostKeyPolicy(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
    """Verifies the key of one hop. paramiko calls the policy for every key, because the client's own list is empty."""

    def __init__(self, hop: ResolvedHop, known: KnownHosts, own: Path, prompter: Prompter | None) -> None:
        self._hop = hop
        self._known = known
        self._own = own
        self._prompter = prompter

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Raise HostKeyRefused if the key is not trusted.

        When paramiko calls this method, only the handshake has been sent.
        """
        presented = HostKey(key.get_name(), key.asbytes())
        verify_host_key(self._hop, self._known, presented, self._own, self._prompter)


@dataclass
class ConnectedHop:
    """One hop whose handshake has started."""

    hop: ResolvedHop
    fabric: fabric.Connection
    login: LoginStrategy
    transport: SshTransport | None = None
    watchdog: Watchdog | None = None


class Connection:
    """The SSH connection to the target of `route`. It is opened when the first process is started.

    `sock` is a socket that is connected to the first hop, or None. `confirm_local` is called with the first hop if
    it is this machine, before the handshake. If `fast` is False, only public names of paramiko are
    used.
    """

    def __init__(
        self,
        route: Route,
        *,
        own_known_hosts: Path,
        prompter: Prompter | None = None,
        confirm_local: Callable[[ResolvedHop], None] | None = None,
        timeouts: Timeouts | None = None,
        sock: socket.socket | None = None,
        fast: bool = True,
    ) -> None:
        self.route = route
        self.warnings: list[str] = list(route.warnings)
        self._own = own_known_hosts
        self._prompter = prompter
        self._confirm_local = confirm_local
        self._timeouts = timeouts or Timeouts()
        self._socket = sock
        self._transport_class = transport_class() if fast else SshTransport
        self._hops: list[ConnectedHop] = []
        self._timeout_reason = ""
        self._started = 0
        self._lock = threading.Lock()

    @property
    def in_use(self) -> bool:
        """True if a process was started on the connection."""
        return self._started > 0

    @property
    def alive(self) -> bool:
        return bool(self._hops) and all(hop.transport and hop.transport.is_active() for hop in self._hops)

    def describe(self) -> tuple[tuple[str, str], ...]:
        """Return (step, result) for each completed step: connect, host key, login."""
        hops = self.route.hops
        path = " through ".join(hop.where for hop in reversed(hops))
        rows = [("connect", f"{hops[-1].alias} is {path}")]
        transport = self._hops[-1].transport if self._hops else None
        if transport is not None and transport.initial_kex_done:
            strict = "strict" if transport.agreed_on_strict_kex else "not strict"
            key = HostKey(transport.host_key.get_name(), transport.host_key.asbytes())
            login = self._hops[-1].login.succeeded_with
            rows.append(("host key", f"{key.key_type} {key.fingerprint}"))
            rows.append(("login", f"{login}; {transport.local_cipher}, {strict} key exchange"))
        return tuple(rows)

    def start(self, command: str) -> ChannelStream:
        """Start `command` on the target. Raises CannotConnect, HostKeyRefused, AuthRefused, ConnectionLost."""
        name = self.route.target.alias
        with self._lock:
            if not self.alive:
                if self._hops:
                    self.close()
                self._open(command)
            target = self._hops[-1]
        transport, watchdog = target.transport, target.watchdog
        assert transport and watchdog
        try:
            channel = transport.start_command(command)
        except paramiko.ChannelException as error:
            raise SessionRefused(f"{name} refused another session: {error}", where=name) from None
        except CONNECTION_ERRORS as error:
            reason = self._loss_reason() or error
            raise ConnectionLost(f"the connection to {name} was lost: {reason}", where=name) from None
        self._started += 1
        return ChannelStream(
            channel,
            name,
            self._loss_reason,
            watchdog.deadline,
            transport.progress_of(channel),
            transport.sock.in_flight,
        )

    def _open(self, command: str) -> None:
        self._timeout_reason = ""
        hops = self.route.hops
        try:
            sock, self._socket = self._socket or connect_first_hop(self.route, self._timeouts), None
            if self._confirm_local is not None and leads_to_this_machine(sock):
                self._confirm_local(hops[0])
            first = MonitoredSocket(sock, sent_banner=f"{IDENTIFICATION}\r\n".encode())
            for hop, following in zip(hops, (*hops[1:], None), strict=True):
                destination = (following.host, following.port) if following else None
                early = EarlyRequest(command if destination is None else "", destination)
                self._connect(hop, early, first if hop is hops[0] else None)
        except BaseException:
            self.close()
            raise

    def _connect(self, hop: ResolvedHop, early: EarlyRequest, sock: MonitoredSocket | None) -> None:
        """Connect to one hop and authenticate. Raises CannotConnect, HostKeyRefused, AuthRefused."""
        known = read_known_hosts(hop, self._own)
        self.warnings += [warning for warning in known.warnings if warning not in self.warnings]
        limit = self._timeouts.connect_s
        login = LoginStrategy(hop, self._prompter)

        def make_transport(
            stream: SocketLike, disabled_algorithms: Mapping[str, tuple[str, ...]] | None = None
        ) -> SshTransport:
            monitored = stream if isinstance(stream, MonitoredSocket) else MonitoredSocket(stream)
            connected.transport = self._transport_class(monitored, limit, known.key_types(hop), early)
            return connected.transport

        gateway = self._hops[-1].fabric if self._hops else False
        options = {"timeout": limit, "transport_factory": make_transport, "auth_strategy": login}
        connected = ConnectedHop(hop, make_fabric_connection(hop, gateway, options, sock), login)
        connected.fabric.client.set_missing_host_key_policy(StrictHostKeyPolicy(hop, known, self._own, self._prompter))
        self._hops.append(connected)
        start = time.monotonic()
        try:
            connected.fabric.open()
        except (*CONNECTION_ERRORS, AuthRefused, HungUp) as error:
            raise self._connect_error(connected, error, time.monotonic() - start >= limit * 0.9) from None
        self._watch(connected)

    def _watch(self, connected: ConnectedHop) -> None:
        transport = connected.transport
        assert transport
        transport.end_handshake()

        def on_timeout(reason: str) -> None:
            self._timeout_reason = self._timeout_reason or reason
            transport.abort()

        connected.watchdog = Watchdog(transport.sock, self._timeouts, transport.send_keepalive, on_timeout)

    def _connect_error(self, connected: ConnectedHop, error: Exception, timed_out: bool) -> HalfstepError:
        hop, transport = connected.hop, connected.transport
        if transport is None:
            return CannotConnect(f"the gateway could not connect to {hop.where}: {error}", where=hop.alias)
        if transport.malformed:
            return CannotConnect(f"the connection to {hop.where} was closed: {transport.malformed}", where=hop.alias)
        if isinstance(error, HalfstepError):
            return error
        if not transport.initial_kex_done:
            return handshake_error(hop, transport, error, transport.sock.first_bytes, timed_out)
        return HungUp(f"{hop.where} closed the connection during authentication: {error}", where=hop.alias)

    def _loss_reason(self) -> str:
        if self._timeout_reason:
            return self._timeout_reason
        reasons = (hop.transport.loss_reason() for hop in self._hops if hop.transport)
        return next(filter(None, reasons), "")

    def close(self) -> None:
        """Close every hop. A second call does nothing."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        for hop in self._hops:
            if hop.watchdog:
                hop.watchdog.stop()
        for hop in reversed(self._hops):
            if hop.transport:
                hop.transport.stop()
        self._hops, self._started = [], 0


def make_fabric_connection(
    hop: ResolvedHop, gateway: fabric.Connection | bool, options: Mapping[str, object], sock: MonitoredSocket | None
) -> fabric.Connection:
    """Return an unopened connection with the options that `ssh -G` resolved.

    The Config is lazy: it does not load ~/.fabric.yaml, ~/.fabric.py (which would be executed) or ~/.ssh/config.
    """
    config = fabric.Config(lazy=True, ssh_config=paramiko.SSHConfig())
    connect_kwargs = {**options, "sock": sock} if sock is not None else dict(options)
    return fabric.Connection(
        hop.host, user=hop.user, port=hop.port, config=config, gateway=gateway, connect_kwargs=connect_kwargs
    )
