"""The connection: through every gateway to the host, each key checked first; reused for every channel."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import paramiko
from paramiko.channel import Channel

from remote.errors import CannotConnect, ConnectionLost, SessionRefused
from remote.link.ask import Prompter
from remote.link.ssh.approach import VERSION, greet
from remote.link.ssh.channel import ChannelWire
from remote.link.ssh.dial import Patience
from remote.link.ssh.hostkeys import read_known, verify_host_key
from remote.link.ssh.known_hosts import HostKey
from remote.link.ssh.login import Behind, log_in
from remote.link.ssh.no_handshake import no_handshake
from remote.link.ssh.route import Route, Station
from remote.link.ssh.transport import Transport
from remote.link.ssh.watch import Heard, Stream, Watchdog

FAULTS = (paramiko.SSHException, EOFError, OSError)


class Connection:
    """One SSH connection to the route's target, opened when first needed."""

    def __init__(
        self,
        route: Route,
        *,
        own: Path,
        ask: Prompter | None = None,
        patience: Patience | None = None,
        arrived: socket.socket | None = None,
    ) -> None:
        self.route = route
        self._arrived = arrived
        self.warnings: list[str] = list(route.warnings)
        self._own = own
        self._ask = ask
        self._patience = patience or Patience()
        self._transports: list[Transport] = []
        self._watchdogs: list[Watchdog] = []
        self._early: Channel | None = None
        self._reason = ""
        self._started = 0
        self._lock = threading.Lock()

    @property
    def in_use(self) -> bool:
        """A session was opened on it since it was made."""
        return self._started > 0

    @property
    def alive(self) -> bool:
        return bool(self._transports) and all(transport.is_active() for transport in self._transports)

    def describe(self) -> tuple[tuple[str, str], ...]:
        """The steps that were gone: connect, host key, login."""
        stations = self.route.stations
        way = " through ".join(station.where for station in reversed(stations))
        rows = [("connect", f"{stations[-1].alias} is {way}")]
        if self._transports:
            transport = self._transports[-1]
            if transport.initial_kex_done:
                strict = "strict" if transport.agreed_on_strict_kex else "not strict"
                key = HostKey(transport.host_key.get_name(), transport.host_key.asbytes())
                rows.append(("host key", f"{key.kind} {key.fingerprint}"))
                rows.append(("login", f"{transport.login}; {transport.local_cipher}, {strict} key exchange"))
        return tuple(rows)

    def start(self, command: str) -> ChannelWire:
        """The wire to a new process on the host. Does not wait for the server to say that it started."""
        name = self.route.target.alias
        with self._lock:
            if not self.alive:
                if self._transports:
                    self.close()
                self._open(command)
            transport, early, self._early = self._transports[-1], self._early, None
        try:
            if early is not None:
                channel = transport.confirm_early(early, self._patience.silence_s)
            else:
                channel = transport.start_command(command, self._patience.silence_s)
        except paramiko.ChannelException as error:
            raise SessionRefused(f"{name} opens no further session: {error}", where=name) from None
        except FAULTS as error:
            raise ConnectionLost(f"the line to {name} went away: {self._why() or error}", where=name) from None
        self._started += 1
        within = self._watchdogs[-1].within
        return ChannelWire(
            channel, name, self._why, within, lambda: transport.progress_of(channel), transport.sock.in_flight
        )

    def _open(self, command: str) -> None:
        self._reason = ""
        stations = self.route.stations
        try:
            arrived, self._arrived = self._arrived or greet(self.route, self._patience), None
            heard = Heard(arrived, said=f"{VERSION}\r\n".encode())
            for station, ahead in zip(stations, (*stations[1:], None), strict=True):
                transport = self._handshake(station, heard)
                ask_early = self._early_request(transport, command, ahead)
                transport.login = log_in(transport, station, self._ask, self._patience.connect_s, ask_early)
                transport.settle()
                if ahead is not None:
                    heard = Heard(self._pass(transport, ahead))
        except BaseException:
            self.close()
            raise

    def _early_request(self, transport: Transport, command: str, ahead: Station | None) -> Behind | None:
        """What is sent behind a proof of who we are: the command, or on a gateway the wish to go on."""
        if not transport.takes_early_commands:
            return None

        def send() -> Callable[[], None]:
            if ahead is None:
                channel = transport.start_early(command)
            else:
                channel = transport.pass_early(ahead.host, ahead.port)
            self._early = channel
            return lambda: forget(channel)

        def forget(channel: Channel) -> None:
            self._early = None
            transport.forget_early(channel)

        return send

    def _pass(self, gateway: Transport, station: Station) -> Stream:
        """A channel through the gateway to the next station's port."""
        early, self._early = self._early, None
        limit = self._patience.connect_s
        try:
            if early is not None:
                stream: Stream = gateway.confirm_early(early, limit)
            else:
                stream = gateway.open_channel(
                    "direct-tcpip", (station.host, station.port), ("127.0.0.1", 0), timeout=limit
                )
        except FAULTS as error:
            raise CannotConnect(
                f"the gateway could not connect to {station.where}: {error}", where=station.alias
            ) from None
        return stream

    def _handshake(self, station: Station, heard: Heard) -> Transport:
        """An encrypted line to a server whose key is trusted; nothing of ours has been sent but the handshake."""
        known = read_known(station, self._own)
        self.warnings += [warning for warning in known.warnings if warning not in self.warnings]
        transport = Transport(heard, self._patience.connect_s, known.kinds(station.key_name))
        self._transports.append(transport)
        start = time.monotonic()
        try:
            transport.start_client(timeout=self._patience.connect_s)
            if not transport.initial_kex_done:
                raise TimeoutError
        except FAULTS as error:
            late = time.monotonic() - start >= self._patience.connect_s * 0.9
            raise no_handshake(station, transport, error, heard.first, late) from None
        key = transport.get_remote_server_key()
        verify_host_key(station, known, HostKey(key.get_name(), key.asbytes()), self._own, self._ask)
        self._watchdogs.append(
            Watchdog(heard, self._patience, transport.ask_sign_of_life, lambda why: self._bite(transport, why))
        )
        return transport

    def _bite(self, transport: Transport, why: str) -> None:
        self._reason = self._reason or why
        transport.break_off()

    def _why(self) -> str:
        if self._reason:
            return self._reason
        for transport in self._transports:
            if not transport.is_active():
                return transport.farewell or str(transport.get_exception() or "") or "the server closed it"
        return ""

    def close(self) -> None:
        """Nothing is left open; safe to call twice."""
        if self._arrived is not None:
            self._arrived.close()
            self._arrived = None
        for watchdog in self._watchdogs:
            watchdog.end()
        for transport in reversed(self._transports):
            transport.end()
        self._watchdogs, self._transports, self._early, self._started = [], [], None, 0
