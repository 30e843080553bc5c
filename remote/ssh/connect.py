"""The connection: through every gateway to the host, each key checked first; reused for every channel."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path

import paramiko
from paramiko.common import cMSG_CHANNEL_REQUEST, cMSG_GLOBAL_REQUEST
from paramiko.message import Message

from remote.ask import Ask
from remote.errors import CannotConnect, ConnectionLost, HungUp
from remote.ssh.channel import ChannelWire
from remote.ssh.dial import Patience, dial
from remote.ssh.hostkeys import Known, read_known, verify_host_key
from remote.ssh.known_hosts import HostKey
from remote.ssh.login import log_in
from remote.ssh.route import Route, Station
from remote.ssh.watch import Heard, Stream, Watchdog

logging.getLogger("paramiko").addHandler(logging.NullHandler())

WINDOW_BYTES = 32 * 2**20
PACKET_BYTES = 2**18
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr", "aes192-ctr")
# SHA-1 and CBC are what downgrade attacks want; a server of this decade has better.
DISABLED: Mapping[str, tuple[str, ...]] = {
    "keys": ("ssh-rsa",),
    "pubkeys": ("ssh-rsa",),
    "macs": ("hmac-sha1", "hmac-md5", "hmac-sha1-96", "hmac-md5-96"),
    "ciphers": ("aes128-cbc", "aes192-cbc", "aes256-cbc", "3des-cbc"),
}


class _Transport(paramiko.Transport):  # type: ignore[misc]
    """paramiko's transport, which also remembers what a server offered when nothing was in common."""

    offered: Mapping[str, list[str]] = {}

    def _parse_kex_init(self, message: Message) -> None:
        self.offered = self._really_parse_kex_init(Message(message.asbytes()))
        super()._parse_kex_init(message)


class Connection:
    """One SSH connection to the route's target, opened when first needed."""

    def __init__(self, route: Route, *, own: Path, ask: Ask | None = None, patience: Patience | None = None) -> None:
        self.route = route
        self.warnings: list[str] = list(route.warnings)
        self._own = own
        self._ask = ask
        self._patience = patience or Patience()
        self._transports: list[_Transport] = []
        self._watchdogs: list[Watchdog] = []
        self._reason = ""
        self._lock = threading.Lock()

    @property
    def alive(self) -> bool:
        return bool(self._transports) and all(transport.is_active() for transport in self._transports)

    @property
    def agreed(self) -> str:
        """Key exchange and cipher in words, and whether the exchange was the strict one (Terrapin)."""
        transport = self._target()
        strict = "strict" if transport.agreed_on_strict_kex else "not strict"
        return f"{transport.host_key_type}, {transport.local_cipher}, {strict} key exchange"

    def _target(self) -> _Transport:
        with self._lock:
            if not self.alive:
                self.close()
                self._open()
            return self._transports[-1]

    def _open(self) -> None:
        self._reason = ""
        previous: _Transport | None = None
        try:
            for station in self.route.stations:
                stream: Stream = dial(station, self._patience) if previous is None else self._pass(previous, station)
                previous = self._handshake(station, stream)
                log_in(previous, station, self._ask, self._patience.connect_s)
        except BaseException:
            self.close()
            raise

    def _pass(self, gateway: _Transport, station: Station) -> Stream:
        """A channel through the gateway to the next station's port."""
        try:
            stream: Stream = gateway.open_channel(
                "direct-tcpip", (station.host, station.port), ("127.0.0.1", 0), timeout=self._patience.connect_s
            )
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise CannotConnect(
                f"the gateway could not connect to {station.where}: {error}", where=station.alias
            ) from None
        return stream

    def _handshake(self, station: Station, stream: Stream) -> _Transport:
        """An encrypted line to a server whose key is trusted; nothing of ours has been sent but the handshake."""
        known = read_known(station, self._own)
        self.warnings += [warning for warning in known.warnings if warning not in self.warnings]
        heard = Heard(stream)
        transport = _transport(heard, known, station, self._patience)
        self._transports.append(transport)
        try:
            transport.start_client(timeout=self._patience.connect_s)
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise _no_handshake(station, transport, error) from None
        if not transport.initial_kex_done:
            raise CannotConnect(f"{station.where} timed out in the key exchange", where=station.alias)
        key = transport.get_remote_server_key()
        verify_host_key(station, known, HostKey(key.get_name(), key.asbytes()), self._own, self._ask)
        self._watchdogs.append(
            Watchdog(heard, self._patience, lambda: _ping(transport), lambda why: self._bite(transport, why))
        )
        return transport

    def _bite(self, transport: _Transport, why: str) -> None:
        self._reason = self._reason or why
        transport.packetizer.close()

    def start(self, command: str) -> ChannelWire:
        """The wire to a new process on the host. Does not wait for the server to say that it started."""
        transport = self._target()
        name = self.route.target.alias
        try:
            channel = transport.open_session(
                window_size=WINDOW_BYTES, max_packet_size=PACKET_BYTES, timeout=self._patience.silence_s
            )
            message = Message()
            message.add_byte(cMSG_CHANNEL_REQUEST)
            message.add_int(channel.remote_chanid)
            message.add_string("exec")
            message.add_boolean(True)
            message.add_string(command)
            transport._send_user_message(message)
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise ConnectionLost(f"the line to {name} went away: {self._why() or error}", where=name) from None
        return ChannelWire(channel, name, self._why, self._watchdogs[-1].within, lambda: None)

    def _why(self) -> str:
        if self._reason:
            return self._reason
        for transport in self._transports:
            if not transport.is_active():
                error = transport.saved_exception
                return str(error) or "the server closed it"
        return ""

    def close(self) -> None:
        """Nothing is left open; safe to call twice."""
        for watchdog in self._watchdogs:
            watchdog.end()
        for transport in reversed(self._transports):
            # The handshake's timer is not a daemon thread: left running, it holds the process up at its end.
            transport.packetizer.complete_handshake()
            transport.close()
            transport.sock.close()
        self._watchdogs, self._transports = [], []


def _transport(heard: Heard, known: Known, station: Station, patience: Patience) -> _Transport:
    transport = _Transport(
        heard,
        default_window_size=WINDOW_BYTES,
        default_max_packet_size=PACKET_BYTES,
        disabled_algorithms=DISABLED,
        strict_kex=True,
    )
    transport.banner_timeout = patience.connect_s
    transport.handshake_timeout = patience.connect_s
    options = transport.get_security_options()
    options.ciphers = CIPHERS
    wanted = {"rsa-sha2-512", "rsa-sha2-256"} if "ssh-rsa" in known.kinds(station.key_name) else set()
    wanted |= set(known.kinds(station.key_name))
    options.key_types = sorted(options.key_types, key=lambda kind: kind not in wanted)
    return transport


def _ping(transport: _Transport) -> None:
    """A request that every server answers, if only to say that it does not know it."""
    message = Message()
    message.add_byte(cMSG_GLOBAL_REQUEST)
    message.add_string("keepalive@openssh.com")
    message.add_boolean(True)
    transport._send_user_message(message)


def _no_handshake(station: Station, transport: _Transport, error: Exception) -> CannotConnect:
    where = station.where
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        offered = transport.offered
        return CannotConnect(
            f"{where} and we have no algorithm in common ({error}). It offers {_algorithms(offered)}; we accept "
            f"{', '.join(transport.preferred_kex)}; {', '.join(transport.preferred_keys[:6])}; "
            f"{', '.join(transport.preferred_ciphers)}",
            where=station.alias,
            hint="update the SSH server there: SHA-1 and CBC are not accepted",
        )
    if transport.remote_version:
        return CannotConnect(f"{where} broke off the key exchange: {error or 'it hung up'}", where=station.alias)
    words = str(error)
    if isinstance(error, (EOFError, ConnectionError)) or "EOF" in words or words.endswith("banner"):
        return HungUp(
            f"{where} hung up before saying that it is an SSH server: too many connections at once, "
            "or not an SSH server",
            where=station.alias,
        )
    return CannotConnect(
        f"what answers at {where} is not an SSH server: {words}",
        where=station.alias,
        hint=f"is {station.port} the right port?",
    )


def _algorithms(offered: Mapping[str, list[str]]) -> str:
    rows = [offered.get(key, []) for key in ("kex_algo_list", "server_key_algo_list", "client_encrypt_algo_list")]
    return "; ".join(", ".join(row) for row in rows)
