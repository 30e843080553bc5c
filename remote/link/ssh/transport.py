"""paramiko's transport with what it lacks: algorithms of this decade only, no waiting where none is needed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import paramiko
from paramiko.channel import Channel
from paramiko.common import MSG_UNIMPLEMENTED, cMSG_CHANNEL_OPEN, cMSG_CHANNEL_REQUEST, cMSG_GLOBAL_REQUEST
from paramiko.message import Message

from remote.link.ssh.approach import VERSION
from remote.link.ssh.watch import Heard
from remote.protocol.text import first_line

# Without a handler of its own, Python prints paramiko's tracebacks on our stderr.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

# 80 MB/s at 50 ms. More makes a server send more than a home router queues, and arrives later: measured.
WINDOW_BYTES = 4 * 2**20
PACKET_BYTES = 2**18
LARGEST_PACKET = 2 * PACKET_BYTES
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr", "aes192-ctr")
# SHA-1 and CBC are what a downgrade would lead to; every server of this decade has better.
DISABLED: Mapping[str, tuple[str, ...]] = {
    "keys": ("ssh-rsa",),
    "pubkeys": ("ssh-rsa",),
    "macs": ("hmac-sha1", "hmac-md5", "hmac-sha1-96", "hmac-md5-96"),
    "ciphers": ("aes128-cbc", "aes192-cbc", "aes256-cbc", "3des-cbc"),
}
FIRST_CHANNEL = 0


class Packetizer(paramiko.packet.Packetizer):  # type: ignore[misc]
    """paramiko's, which believes a length that came damaged or from an enemy, and waits for gigabytes."""

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """The next `n` bytes. Raises SSHException where no packet is that long."""
        if n > LARGEST_PACKET:
            raise paramiko.SSHException(f"a packet of {n} bytes: the line is damaged, or this is no SSH server")
        return bytes(super().read_all(n, check_rekey))


class Transport(paramiko.Transport):  # type: ignore[misc]
    """One encrypted line. Public calls of paramiko's stay as they are; what is here is ours."""

    _PROTO_ID, _CLIENT_ID = VERSION.removeprefix("SSH-").split("-")

    def __init__(self, heard: Heard, timeout_s: float, key_kinds: Iterable[str]) -> None:
        super().__init__(
            heard,
            default_window_size=WINDOW_BYTES,
            default_max_packet_size=PACKET_BYTES,
            disabled_algorithms=DISABLED,
            strict_kex=True,
            packetizer_class=Packetizer,
        )
        self.banner_timeout = timeout_s
        self.handshake_timeout = timeout_s
        self.login = ""
        self.farewell = ""
        self.offered: Mapping[str, list[str]] = {}
        # paramiko ends the connection over a message that says "I do not know that message".
        self._handler_table[MSG_UNIMPLEMENTED] = lambda message: None
        options = self.get_security_options()
        options.ciphers = CIPHERS
        # A server with several keys shows the type that is asked for first: ask for one that is known.
        known = set(key_kinds)
        known |= {"rsa-sha2-512", "rsa-sha2-256"} if "ssh-rsa" in known else set()
        options.key_types = sorted(options.key_types, key=lambda kind: kind not in known)

    def _parse_kex_init(self, message: Message) -> None:
        self.offered = self._really_parse_kex_init(Message(message.asbytes()))
        super()._parse_kex_init(message)

    def _parse_disconnect(self, message: Message) -> None:
        message.get_int()
        self.farewell = first_line(message.get_binary())

    @property
    def takes_early_commands(self) -> bool:
        """Whether the server is known to keep what is sent behind an authentication request until it is decided."""
        return bool(self.remote_version.startswith("SSH-2.0-OpenSSH_"))

    def start_early(self, command: str) -> Channel:
        """Asks for the connection's first session and for `command` in it, before anything is confirmed.

        To be sent right behind an authentication request: it costs no round trip of its own. Where that request is
        refused, the server says that it does not know these messages, and the channel is to be forgotten.
        """
        channel = self._open_early("session")
        # OpenSSH numbers channels from 0; this is the first.
        self._send_user_message(exec_request(FIRST_CHANNEL, command))
        return channel

    def pass_early(self, host: str, port: int) -> Channel:
        """Asks for a way through to another server, in the same manner."""
        return self._open_early("direct-tcpip", host, port, "127.0.0.1", 0)

    def _open_early(self, kind: str, *words: str | int) -> Channel:
        with self.lock:
            number = self._next_channel()
            channel = Channel(number)
            self._channels.put(number, channel)
            self.channel_events[number] = threading.Event()
            self.channels_seen[number] = True
            channel._set_transport(self)
            channel._set_window(WINDOW_BYTES, PACKET_BYTES)
        message = Message()
        message.add_byte(cMSG_CHANNEL_OPEN)
        message.add_string(kind)
        for word in (number, WINDOW_BYTES, PACKET_BYTES, *words):
            if isinstance(word, int):
                message.add_int(word)
            else:
                message.add_string(word)
        self._send_user_message(message)
        return channel

    def confirm_early(self, channel: Channel, timeout_s: float) -> Channel:
        """The channel is open. Raises SSHException."""
        event = self.channel_events.get(channel.chanid)
        if event is not None and not event.wait(timeout_s):
            raise paramiko.SSHException("the server did not open the session in time")
        if not channel.active:
            raise self.get_exception() or paramiko.SSHException("the server did not open a session")
        return channel

    def forget_early(self, channel: Channel) -> None:
        """What became of it is of no interest."""
        with self.lock:
            self._channels.delete(channel.chanid)
            self.channel_events.pop(channel.chanid, None)

    def start_command(self, command: str, timeout_s: float) -> Channel:
        """A session whose process was asked for; that it started is not waited for, since it will speak."""
        channel = self.open_session(window_size=WINDOW_BYTES, max_packet_size=PACKET_BYTES, timeout=timeout_s)
        self._send_user_message(exec_request(channel.remote_chanid, command))
        return channel

    def progress_of(self, channel: Channel) -> tuple[int, int]:
        """Changes while what was written into the channel is still moving: a slow line is not a dead one.

        In steps of 4 KiB, so that a sign of life asked for is not taken for progress.
        """
        return channel.out_window_size >> 12, (self.sock.unsent() or 0) >> 12

    def ask_sign_of_life(self) -> None:
        """Sends a request that every server answers, if only to say that it does not know it."""
        message = Message()
        message.add_byte(cMSG_GLOBAL_REQUEST)
        message.add_string("keepalive@openssh.com")
        message.add_boolean(True)
        self._send_user_message(message)

    def settle(self) -> None:
        """The handshake is over."""
        self.sock.hurried = False

    def break_off(self) -> None:
        """The socket is closed under whoever waits for it."""
        self.packetizer.close()

    def end(self) -> None:
        """Closed, and none of its threads keeps the process from ending."""
        # The timer of the handshake is no daemon thread: left running it would be waited for.
        self.packetizer.complete_handshake()
        self.close()
        self.sock.close()

    def get_exception(self) -> Any:
        """What went wrong, kept for whoever asks next: paramiko tells it once."""
        return self.saved_exception


def exec_request(channel: int, command: str) -> Message:
    message = Message()
    message.add_byte(cMSG_CHANNEL_REQUEST)
    message.add_int(channel)
    message.add_string("exec")
    message.add_boolean(True)
    message.add_string(command)
    return message
