"""A paramiko Transport with stricter algorithms, limits and diagnostics. Uses only paramiko's public interface."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Mapping

import paramiko
from paramiko.message import Message

from remote.link.ssh.announced_counts import judge_announced_count
from remote.link.ssh.flow_control import FlowControl
from remote.link.ssh.key_exchange_sizes import judge_key_exchange
from remote.link.ssh.monitored_socket import MonitoredSocket
from remote.link.ssh.preconnect import IDENTIFICATION
from remote.protocol.dataclass import dataclass
from remote.protocol.hidden import first_message_line

# The window allows 80 MB/s at 50 ms. With a larger window, a server sends more than a home router can queue, and the
# transfer becomes slower.
WINDOW_BYTES = 4 * 2**20
PACKET_BYTES = 2**18
MAX_PACKET_BYTES = 2 * PACKET_BYTES
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr", "aes192-ctr")
# SHA-1 and CBC are disabled, because a downgrade attack would select them.
DISABLED_ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "keys": ("ssh-rsa",),
    "pubkeys": ("ssh-rsa",),
    "macs": ("hmac-sha1", "hmac-md5", "hmac-sha1-96", "hmac-md5-96"),
    "ciphers": ("aes128-cbc", "aes192-cbc", "aes256-cbc", "3des-cbc"),
}
OFFERED = ("kex algos", "server key", "client encrypt")
ERROR_PREFIXES = ("Socket exception: ", "Exception (client): ", "Unknown exception: ")
_numbers = itertools.count()


@dataclass(frozen=True)
class EarlyRequest:
    """The channel to open right after authentication: a session for a command, or a channel to the next hop."""

    command: str = ""
    destination: tuple[str, int] | None = None


class TransportLog(logging.Handler):
    """Collects data that paramiko only logs: the server's algorithms, the reason for a disconnect, the first error."""

    def __init__(self) -> None:
        super().__init__()
        self.offered: dict[str, str] = {}
        self.disconnect_reason = ""
        self.error = ""
        # Each connection has its own logger. Without a handler, Python would print paramiko's tracebacks to stderr.
        self.logger = logging.getLogger(f"paramiko.halfstep.{next(_numbers)}")
        self.logger.propagate = False
        self.logger.setLevel(logging.DEBUG)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        name, _, value = message.partition(": ")
        if name in OFFERED:
            self.offered[name] = value
        elif name.startswith("Disconnect (code"):
            self.disconnect_reason = first_message_line(value)
        elif record.levelno >= logging.ERROR and message.startswith(ERROR_PREFIXES):
            self.error = self.error or first_message_line(value)


class LimitedPacketizer(paramiko.packet.Packetizer):  # type: ignore[misc]
    """A Packetizer with limits for packets, lists, the numbers of a key exchange and the data of a channel.

    If the length of a packet is corrupt or malicious, paramiko's Packetizer waits for gigabytes. `malformed` is the
    reason if the last message was refused, otherwise "".
    """

    def __init__(self, sock: MonitoredSocket) -> None:
        super().__init__(sock)
        self._flow = FlowControl()
        self.malformed = ""

    def send_message(self, data: Message) -> None:
        self._flow.sending(data.asbytes())
        super().send_message(data)

    def read_message(self) -> tuple[int, Message]:
        """Return the type and the body of the next message.

        Raises SSHException if the message announces more entries than it contains, if the numbers of a key exchange are
        not usable, or if the server sends more data than the window of a channel allows.
        """
        kind, message = super().read_message()
        body = message.asbytes()
        self.malformed = judge_announced_count(kind, body) or judge_key_exchange(kind, body)
        if self.malformed:
            raise paramiko.SSHException(self.malformed)
        self._flow.received(kind, body)
        return kind, message

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Return the next `n` bytes. Raises SSHException if `n` is above MAX_PACKET_BYTES."""
        if n > MAX_PACKET_BYTES:
            raise paramiko.SSHException(f"packet of {n} bytes: corrupt data, or not an SSH server")
        return bytes(super().read_all(n, check_rekey))


class SshTransport(paramiko.Transport):  # type: ignore[misc]
    """One encrypted connection. `key_types` contains the types of the keys that known_hosts has for the server.

    The handshake requests a key of one of these types.
    """

    def __init__(
        self, sock: MonitoredSocket, timeout_s: float, key_types: Iterable[str] = (), early: EarlyRequest | None = None
    ) -> None:
        super().__init__(
            sock,
            default_window_size=WINDOW_BYTES,
            default_max_packet_size=PACKET_BYTES,
            disabled_algorithms=DISABLED_ALGORITHMS,
            strict_kex=True,
            packetizer_class=LimitedPacketizer,
        )
        self.early = early
        self.local_version = IDENTIFICATION
        self.banner_timeout = self.handshake_timeout = self.auth_timeout = self.channel_timeout = timeout_s
        self.log = TransportLog()
        self.set_log_channel(self.log.logger.name)
        options = self.get_security_options()
        options.ciphers = CIPHERS
        known = set(key_types)
        known |= {"rsa-sha2-512", "rsa-sha2-256"} if "ssh-rsa" in known else set()
        options.key_types = sorted(options.key_types, key=lambda key_type: key_type not in known)

    @property
    def was_authenticated(self) -> bool:
        """True if the server accepted a login, even if it has closed the connection after that."""
        return self.auth_handler is not None and bool(self.auth_handler.is_authenticated())

    @property
    def malformed(self) -> str:
        """The reason if a malformed message of the server ended the connection, otherwise ""."""
        return str(self.packetizer.malformed)

    def query_key(self, username: str, key: paramiko.PKey) -> bool:
        """Return True: paramiko has no public function that queries whether the server would accept `key`."""
        return True

    def start_command(self, command: str) -> paramiko.Channel:
        """Return a session channel in which `command` was started. Raises SSHException."""
        channel = self.open_session()
        channel.exec_command(command)
        return channel

    def send_keepalive(self) -> None:
        """Send a request that every server answers, and wait for the answer."""
        self.global_request("keepalive@openssh.com")

    def progress_of(self, channel: paramiko.Channel) -> Callable[[], tuple[int, int]]:
        """Return a function whose values change while data written to the new `channel` is being sent.

        The values count units of 4 KiB, so that a keepalive is not counted as progress. A window that the server opens
        beyond its first size does not count either: the server opens it again only for data that it has read.
        """
        full = channel.out_window_size
        return lambda: (min(full, channel.out_window_size) >> 12, (self.sock.unacknowledged() or 0) >> 12)

    def end_handshake(self) -> None:
        """Disable immediate acknowledgements and the debug log, which are only needed during the handshake."""
        self.sock.quickack = False
        self.log.logger.setLevel(logging.INFO)

    def loss_reason(self) -> str:
        """Return why the connection was lost, or "" while it is open."""
        if self.is_active():
            return ""
        return self.log.disconnect_reason or self.log.error or "the server closed the connection"

    def abort(self) -> None:
        """Close the socket, which wakes every thread that waits on it."""
        self.packetizer.close()

    def stop(self) -> None:
        """Close the connection, and stop every thread that would keep the process alive."""
        # The timer of paramiko's handshake is not a daemon thread: it would keep the process alive.
        self.packetizer.complete_handshake()
        self.close()
        self.sock.close()
