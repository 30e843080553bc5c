"""A server that sends more than the window of a channel allows: the connection ends, and the memory is limited."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import paramiko
import pytest
from paramiko.message import Message

from remote.link.ssh.flow_control import ADJUST, CONFIRMATION, DATA, EXTENDED_DATA, OPEN, FlowControl
from remote.link.ssh.monitored_socket import MonitoredSocket
from remote.link.ssh.transport import WINDOW_BYTES, SshTransport
from tests.lab.ssh_server import Account, Server

PIECE = bytes(30_000)
STDERR = 1


def message(kind: int, *values: int | bytes | str) -> bytes:
    built = Message()
    built.add_byte(bytes([kind]))
    for value in values:
        built.add_int(value) if isinstance(value, int) else built.add_string(value)
    return bytes(built.asbytes())


def opened(window: int = 100) -> FlowControl:
    """Return the state after channel 7 was opened, which has the number 3 at the server."""
    flow = FlowControl()
    flow.sending(message(OPEN, "session", 7, window, 1000))
    flow.received(CONFIRMATION, message(CONFIRMATION, 7, 3, 1000, 1000)[1:])
    return flow


def receive(flow: FlowControl, kind: int, size: int, channel: int = 7) -> None:
    extra = (STDERR,) if kind == EXTENDED_DATA else ()
    flow.received(kind, message(kind, channel, *extra, bytes(size))[1:])


@pytest.mark.parametrize("kind", [DATA, EXTENDED_DATA])
def test_data_beyond_the_window_of_a_channel_is_refused(kind: int) -> None:
    flow = opened()
    receive(flow, kind, 60)
    receive(flow, kind, 40)
    with pytest.raises(paramiko.SSHException, match="more data than the window"):
        receive(flow, kind, 1)


def test_stdout_and_stderr_share_the_window() -> None:
    flow = opened()
    receive(flow, DATA, 60)
    with pytest.raises(paramiko.SSHException):
        receive(flow, EXTENDED_DATA, 41)


def test_a_window_that_was_extended_allows_as_much_again() -> None:
    flow = opened()
    receive(flow, DATA, 100)
    flow.sending(message(ADJUST, 3, 50))
    receive(flow, DATA, 50)
    with pytest.raises(paramiko.SSHException):
        receive(flow, DATA, 1)


def test_each_channel_has_its_own_window() -> None:
    flow = opened()
    flow.sending(message(OPEN, "session", 8, 10, 1000))
    receive(flow, DATA, 10, channel=8)
    receive(flow, DATA, 100)
    with pytest.raises(paramiko.SSHException):
        receive(flow, DATA, 1, channel=8)


def test_a_server_cannot_extend_a_window_or_fill_the_memory_with_channels_that_were_not_opened() -> None:
    flow = opened()
    for number in range(1000):
        flow.received(CONFIRMATION, message(CONFIRMATION, number, number, 1000, 1000)[1:])
        receive(flow, DATA, 0, channel=number + 10_000)
        flow.received(ADJUST, message(ADJUST, 7, 1000)[1:])
    assert len(flow._own_numbers) == 1 and len(flow._remaining) == 1
    with pytest.raises(paramiko.SSHException):
        receive(flow, DATA, 101)


class Flood(Server):
    """Accepts any login, and runs no command."""

    def check_auth_none(self, username: str) -> int:
        return int(paramiko.AUTH_SUCCESSFUL)

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        return True


@pytest.fixture
def ends() -> Iterator[tuple[SshTransport, paramiko.Transport]]:
    """The client and the server of a connection."""
    near, far = socket.socketpair()
    server = paramiko.Transport(far)
    server.add_server_key(paramiko.ECDSAKey.generate())
    server.start_server(event=threading.Event(), server=Flood(Account()))
    with closing(server):
        client = SshTransport(MonitoredSocket(near), 60.0)
        client.start_client(timeout=60.0)
        client.auth_none("someone")
        yield client, server
        client.stop()


@pytest.mark.parametrize("head", [(DATA,), (EXTENDED_DATA, STDERR)], ids=["stdout", "stderr"])
def test_SE_09_a_flood_of_a_server_that_ignores_the_window_ends_the_connection(
    ends: tuple[SshTransport, paramiko.Transport], head: tuple[int, ...]
) -> None:
    client, server = ends
    channel = client.start_command("flood")
    kind, *extra = head
    sent = 0
    with suppress(OSError, EOFError, paramiko.SSHException):
        while sent < 16 * WINDOW_BYTES:
            data = Message(message(kind, channel.remote_chanid, *extra, PIECE))
            server._send_user_message(data)
            sent += len(PIECE)
    client.join(60.0)
    assert not client.is_active() and sent < 16 * WINDOW_BYTES
    assert "more data than the window" in client.loss_reason()
    stored = len(channel.in_buffer) + len(channel.in_stderr_buffer)
    assert stored <= WINDOW_BYTES


def test_a_server_that_waits_for_the_window_sends_any_amount(ends: tuple[SshTransport, paramiko.Transport]) -> None:
    client, server = ends
    channel = client.start_command("much")
    accepted = server.accept(60.0)
    size = 5 * WINDOW_BYTES

    def send() -> None:
        accepted.sendall(bytes(size))
        accepted.sendall_stderr(bytes(size))
        accepted.close()

    threading.Thread(target=send, daemon=True).start()
    received = 0
    while received < size:
        received += len(channel.recv(2**20))
    while received < 2 * size:
        received += len(channel.recv_stderr(2**20))
    assert client.is_active()


def test_SE_09_a_server_that_opens_the_window_without_reading_data_makes_no_progress(
    ends: tuple[SshTransport, paramiko.Transport],
) -> None:
    client, server = ends
    channel = client.start_command("silent")
    accepted = server.accept(60.0)
    progress = client.progress_of(channel)
    window = channel.out_window_size

    def opens(size: int) -> tuple[int, int]:
        reached = channel.out_window_size + size
        server._send_user_message(Message(message(ADJUST, channel.remote_chanid, size)))
        accepted.sendall(b".")  # arrives after the message
        assert channel.recv(1) == b"."
        assert channel.out_window_size == reached
        return progress()

    full = progress()
    assert opens(2**20)[0] == full[0]
    channel.sendall(bytes(2**20 + 2**16))
    assert opens(2**15)[0] == full[0] - 2**15 // 2**12
    assert opens(2**15)[0] == full[0] and channel.out_window_size == window
