"""An SSH server other than OpenSSH: paramiko's, with one account, for keys or keyboard-interactive."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import paramiko

from remote.link.address import Address
from tests.lab.sshd import make_key

CHANNEL_SUCCESS = bytes([99])
"""RFC 4254, section 9."""


@dataclass
class Account:
    """The user who may log in, and the requests that were made."""

    name: str = "someone"
    key: paramiko.PKey | None = None
    answers: Sequence[str] = ()
    requests: list[str] = field(default_factory=list)


class Server(paramiko.ServerInterface):
    def __init__(self, account: Account) -> None:
        self._account = account

    def get_allowed_auths(self, username: str) -> str:
        return "keyboard-interactive" if self._account.answers else "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self._account.requests.append("publickey")
        return paramiko.AUTH_SUCCESSFUL if key == self._account.key else paramiko.AUTH_FAILED

    def check_auth_interactive(self, username: str, submethods: str) -> paramiko.InteractiveQuery:
        self._account.requests.append("keyboard-interactive")
        return paramiko.InteractiveQuery("Login", "", *((f"Question {n}: ", False) for n in range(len(self._answers))))

    def check_auth_interactive_response(self, responses: list[str]) -> int:
        return paramiko.AUTH_SUCCESSFUL if list(responses) == self._answers else paramiko.AUTH_FAILED

    @property
    def _answers(self) -> list[str]:
        return list(self._account.answers)

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        channel.get_transport().accepted.clear()
        threading.Thread(target=run, args=(channel, command), daemon=True).start()
        return True


class ServerTransport(paramiko.Transport):
    """Records when it has accepted a command: a server must not close a channel before it has answered the request.

    Each message outside of channels is passed through `edit` before it is sent.
    """

    def __init__(self, connection: socket.socket, edit: Callable[[bytes], bytes]) -> None:
        super().__init__(connection)
        self.accepted = threading.Event()
        self._edit = edit

    def _send_message(self, data: paramiko.Message) -> None:
        super()._send_message(paramiko.Message(self._edit(data.asbytes())))

    def _send_user_message(self, data: paramiko.Message) -> None:
        super()._send_user_message(data)
        if data.asbytes()[:1] == CHANNEL_SUCCESS:
            self.accepted.set()


def run(channel: paramiko.Channel, command: bytes) -> None:
    """Run the command in a shell of this machine, with its streams on the channel."""
    channel.get_transport().accepted.wait()
    process = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout

    def forward() -> None:
        with contextlib.suppress(OSError):
            while data := channel.recv(65536):
                process.stdin.write(data)
                process.stdin.flush()
        with contextlib.suppress(OSError):
            process.stdin.close()

    threading.Thread(target=forward, daemon=True).start()
    with contextlib.suppress(OSError):
        while data := process.stdout.read1(65536):
            channel.sendall(data)
    process.stdout.close()
    with contextlib.suppress(OSError, EOFError):
        channel.send_exit_status(process.wait())
        channel.close()


@contextlib.contextmanager
def paramiko_server(folder: Path, account: Account, edit: Callable[[bytes], bytes] = bytes) -> Iterator[Address]:
    """Yield the address of a running server, with its host key in a separate known_hosts file.

    The server passes its messages outside of channels through `edit`.
    """
    host_key = paramiko.PKey.from_path(make_key(folder / "host"))
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    (folder / "known").write_text(f"[127.0.0.1]:{port} {host_key.get_name()} {host_key.get_base64()}\n")
    transports: list[paramiko.Transport] = []

    def accept() -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            while True:
                transport = ServerTransport(listener.accept()[0], edit)
                transport.add_server_key(host_key)
                transports.append(transport)
                transport.start_server(event=threading.Event(), server=Server(account))

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield Address(
            "other",
            "127.0.0.1",
            port=port,
            user=account.name,
            known_hosts=str(folder / "known"),
            workdir=str(folder / "work"),
        )
    finally:
        listener.close()
        for transport in transports:
            transport.close()
