"""What answers and is not our agent is refused without being believed."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import pytest

from remote.errors import AgentEnded, HalfstepError
from remote.link.agent import AgentHost
from remote.link.greeting import Retries
from remote.link.wire import Wire
from remote.protocol.exits import ExitCode
from remote.protocol.frames import MAX_JSON, hello, pack_json

ONCE = Retries(tries=1)


class Says:
    """A starter whose process says what it is told to, with NONCE replaced by the one that was asked for."""

    def __init__(self, *words: bytes) -> None:
        self._words = words

    def start(self, argv: Sequence[str]) -> Wire:
        # The search is told the nonce first, the agent after its own program.
        nonce = argv[min(5, len(argv) - 1)]
        ours, theirs = socket.socketpair()
        for word in self._words:
            theirs.sendall(word.replace(b"NONCE", nonce.encode()))
        theirs.shutdown(socket.SHUT_WR)
        return SocketWire(ours, theirs)

    def describe(self) -> tuple[tuple[str, str], ...]:
        return ()

    def warnings(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        pass


class SocketWire:
    def __init__(self, ours: socket.socket, theirs: socket.socket) -> None:
        self._ours, self._theirs = ours, theirs

    def read_some(self, limit: int, timeout_s: float) -> bytes:
        data = self._ours.recv(limit)
        if not data:
            raise AgentEnded("ended")
        return data

    def write(self, data: bytes, timeout_s: float) -> None:
        self._ours.sendall(data)

    @property
    def in_flight(self) -> int | None:
        return None

    def last_words(self) -> str:
        return ""

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


GREETING = pack_json({"workdir": "/w", "payload": "/p", "python": [3, 11, 0], "pid": 1})


HUGE = b"J" + (MAX_JSON + 1).to_bytes(4, "big")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([hello("wrong"), GREETING], ExitCode.ENVIRONMENT),
        ([hello("NONCE"), b"J\0\0\0\x02[]"], ExitCode.TEMPORARY),
        ([hello("NONCE"), b"J\0\0\0\x02{}"], ExitCode.TEMPORARY),
        ([hello("NONCE"), b"J\0\0\0\x03{x}"], ExitCode.TEMPORARY),
        ([hello("NONCE"), HUGE], ExitCode.TEMPORARY),
        ([hello("NONCE"), GREETING, HUGE], ExitCode.TEMPORARY),
        ([hello("NONCE"), GREETING, b"X\0\0\0\0"], ExitCode.TEMPORARY),
        ([hello("NONCE"), GREETING, pack_json({"neither": 1})], ExitCode.TEMPORARY),
        ([hello("NONCE"), GREETING, pack_json({"ok": "yes", "result": {}})], ExitCode.TEMPORARY),
        ([hello("NONCE"), b"WHAT\x1b[2J ever\n"], ExitCode.TEMPORARY),
        ([hello("NONCE"), b"y" * 100_000], ExitCode.ENVIRONMENT),
        ([hello("NONCE"), b"DISK 28 No space left on device\n"], ExitCode.DISK),
        ([hello("NONCE"), b"WORKDIR Permission denied\n"], ExitCode.DISK),
    ],
)
def test_BI_56_what_is_not_our_agent_is_refused_without_being_swallowed(words: list[bytes], code: ExitCode) -> None:
    host = AgentHost("titan", Says(*words), retries=ONCE)
    with pytest.raises(HalfstepError) as caught:
        host.ask("file.list", {"path": "x"})
    assert caught.value.exit_code is code
    assert "\x1b" not in caught.value.message
