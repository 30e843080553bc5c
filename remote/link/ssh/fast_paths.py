"""SSH with fewer round trips than paramiko's public interface allows.

This is the only module that uses private names of paramiko. The module saves three round trips per connection: the
service request, the authentication request, the channel open request and the exec request are sent without waiting for
the answer to the previous request. For a version of paramiko that is not in TESTED_VERSIONS, `transport_class` returns
SshTransport, which uses only public names and is slower. tests/remote/link/ssh/test_fast_paths.py contains the digest
of every private function that is used here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import paramiko
from paramiko.auth_handler import AuthOnlyHandler
from paramiko.common import (
    MSG_SERVICE_ACCEPT,
    MSG_USERAUTH_INFO_REQUEST,
    cMSG_CHANNEL_REQUEST,
    cMSG_SERVICE_REQUEST,
    cMSG_USERAUTH_REQUEST,
)
from paramiko.message import Message

from remote.link.ssh.transport import SshTransport

TESTED_VERSIONS = ("5.0.1", "5.1.0")
# OpenSSH numbers the channels of a connection from 0.
FIRST_CHANNEL = 0


def transport_class(version: str = paramiko.__version__) -> type[SshTransport]:
    """Return FastTransport if it was tested with the installed version of paramiko, otherwise SshTransport."""
    return FastTransport if version in TESTED_VERSIONS else SshTransport


class FastAuthHandler(AuthOnlyHandler):  # type: ignore[misc]
    """paramiko's authentication, without waiting until the server accepts the service request."""

    def __init__(self, transport: FastTransport) -> None:
        super().__init__(transport)
        self._query_accepted = False
        request = Message()
        request.add_byte(cMSG_SERVICE_REQUEST)
        request.add_string("ssh-userauth")
        transport._send_message(request)

    @property
    def _client_handler_table(self) -> Mapping[int, Callable[[Message], None]]:
        return {
            **super()._client_handler_table,
            MSG_SERVICE_ACCEPT: lambda message: None,
            MSG_USERAUTH_INFO_REQUEST: self._parse_method_reply,
        }

    def _parse_method_reply(self, message: Message) -> None:
        """Parse message 60: an accepted public key (RFC 4252), or the prompts of keyboard-interactive (RFC 4256)."""
        if self.auth_method == "publickey":
            self._query_accepted = True
            self.auth_event.set()
        else:
            self._parse_userauth_info_request(message)

    def _parse_userauth_failure(self, message: Message) -> None:
        allowed = message.get_list()
        partial = message.get_boolean()
        self.transport.saved_exception = (
            paramiko.ssh_exception.PartialAuthentication(allowed)
            if partial
            else paramiko.BadAuthenticationType("rejected", allowed)
        )
        self.auth_event.set()

    def send_auth_request(
        self, username: str, method: str, finish_message: Callable[[Message], None] | None = None, query: bool = False
    ) -> list[str]:
        self.auth_event = threading.Event()
        self.auth_method = method
        self.username = username
        message = Message()
        message.add_byte(cMSG_USERAUTH_REQUEST)
        message.add_string(username)
        message.add_string("ssh-connection")
        message.add_string(method)
        if finish_message:
            finish_message(message)
        self.transport._send_message(message)
        if method == "publickey" and not query:
            self.transport.send_early()
        allowed: list[str] = self.wait_for_response(self.auth_event)
        return allowed

    def query_key(self, username: str, key: paramiko.PKey) -> bool:
        """Return True if the server would accept a signature by `key`."""
        key_type, blob = self._get_key_type_and_bits(key)
        algorithm = self._finalize_pubkey_algorithm(key_type)
        self._query_accepted = False

        def finish(message: Message) -> None:
            message.add_boolean(False)
            message.add_string(algorithm)
            message.add_string(blob)

        try:
            self.send_auth_request(username, "publickey", finish, query=True)
        except paramiko.AuthenticationException:
            return self._query_accepted and self.transport.is_active()
        return self._query_accepted


class EarlyChannel(threading.Thread):
    """Opens a channel in a thread while the server is still checking the authentication request."""

    def __init__(self, transport: FastTransport, command: str, destination: tuple[str, int] | None) -> None:
        super().__init__(daemon=True)
        self.transport = transport
        self.command = command
        self.destination = destination
        self.channel: paramiko.Channel | None = None
        self._error: Exception | None = None
        # The exec request is sent right after the channel open request, with the channel number that the server will
        # assign.
        self.follow_up = exec_request(FIRST_CHANNEL, command) if command else None
        self.sent = threading.Event()

    def run(self) -> None:
        try:
            self.channel = self.transport.open_channel_now(self.destination)
        except (paramiko.SSHException, EOFError, OSError) as error:
            # An error is ignored if the channel is open: paramiko raises an error if the command has already ended.
            if self.channel is None or not self.channel.active:
                self._error = error
        self.sent.set()

    def result(self) -> paramiko.Channel:
        """Return the open channel. Raises SSHException."""
        self.join()
        if self._error is not None:
            raise self._error
        return self.channel


class FastTransport(SshTransport):
    """SshTransport with fewer round trips."""

    _auth: FastAuthHandler | None = None
    _early_channel: EarlyChannel | None = None

    def _handler(self) -> FastAuthHandler:
        if self._auth is None:
            self._auth = self.auth_handler = FastAuthHandler(self)
        return self._auth

    def query_key(self, username: str, key: paramiko.PKey) -> bool:
        return self._handler().query_key(username, key)

    def auth_none(self, username: str) -> Any:
        return self._handler().auth_none(username)

    def auth_password(self, username: str, password: str, event: None = None, fallback: bool = True) -> Any:
        return self._handler().auth_password(username, password)

    def auth_publickey(self, username: str, key: paramiko.PKey, event: None = None) -> Any:
        try:
            return self._handler().auth_publickey(username, key)
        finally:
            if not self.was_authenticated:
                self._early_channel = None

    def auth_interactive(self, username: str, handler: Callable[..., list[str]], submethods: str = "") -> Any:
        return self._handler().auth_interactive(username, handler, submethods)

    def send_early(self) -> None:
        """Send the early request if the server is known to queue such requests until authentication has finished.

        If authentication fails, OpenSSH answers each of these messages with "unimplemented".
        """
        if self.early is not None and self.remote_version.startswith("SSH-2.0-OpenSSH_"):
            self._early_channel = EarlyChannel(self, self.early.command, self.early.destination)
            self._early_channel.start()
            self._early_channel.sent.wait(self.auth_timeout)

    def open_channel_now(self, destination: tuple[str, int] | None) -> paramiko.Channel:
        """Return a new channel to `destination`, or a session if it is None."""
        if destination is None:
            return super().open_channel("session")
        return super().open_channel("direct-tcpip", destination, ("127.0.0.1", 0))

    def _send_user_message(self, data: Message) -> None:
        super()._send_user_message(data)
        thread = threading.current_thread()
        # The thread is compared, because on a gateway the thread of the next hop also calls this method.
        if isinstance(thread, EarlyChannel) and thread.transport is self and not thread.sent.is_set():
            thread.channel = self._channels.get(next(reversed(self.channels_seen)))
            if thread.follow_up is not None:
                super()._send_user_message(thread.follow_up)
            thread.sent.set()

    def open_channel(
        self, kind: str, dest_addr: tuple[str, int] | None = None, *arguments: Any, **options: Any
    ) -> paramiko.Channel:
        early, self._early_channel = self._early_channel, None
        if early is not None and kind == "direct-tcpip" and dest_addr == early.destination:
            return early.result()
        return super().open_channel(kind, dest_addr, *arguments, **options)

    def start_command(self, command: str) -> paramiko.Channel:
        early, self._early_channel = self._early_channel, None
        if early is not None and command == early.command:
            return early.result()
        channel = self.open_session()
        self._send_user_message(exec_request(channel.remote_chanid, command))
        return channel


def exec_request(channel: int, command: str) -> Message:
    """Return the request to execute `command` in the session with this channel number (RFC 4254, 6.5)."""
    message = Message()
    message.add_byte(cMSG_CHANNEL_REQUEST)
    message.add_int(channel)
    message.add_string("exec")
    message.add_boolean(True)
    message.add_string(command)
    return message
