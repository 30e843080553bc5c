"""Garbled or hostile answers of a host are refused."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import pytest

from remote.errors import (
    AgentEnded,
    ContainerUnavailable,
    DeadlineExceeded,
    Garbled,
    HalfstepError,
    RemoteFault,
    SyncRefused,
)
from remote.host import read_answer
from remote.link.agent import AgentHost
from remote.link.agent_start import Retries
from remote.link.streams import ProcessStream
from remote.protocol.exits import ExitCode
from remote.protocol.frames import MAX_JSON, BadFrame, FrameKind, hello, pack, pack_json, parse_json
from remote.protocol.survey import Survey
from remote.protocol.text import safe_text

ONCE = Retries(tries=1)


class Sends:
    """A starter whose process sends given bytes, with NONCE replaced by the nonce of the request."""

    def __init__(self, *chunks: bytes, stderr: str = "") -> None:
        self._chunks = chunks
        self._stderr = stderr

    def start(self, argv: Sequence[str]) -> ProcessStream:
        # The nonce is the search's first argument, and the agent's after its program.
        nonce = argv[min(5, len(argv) - 1)]
        local, remote = socket.socketpair()
        for chunk in self._chunks:
            remote.sendall(chunk.replace(b"NONCE", nonce.encode()))
        remote.shutdown(socket.SHUT_WR)
        return SocketStream(local, remote, self._stderr)

    def describe(self) -> tuple[tuple[str, str], ...]:
        return ()

    def warnings(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        pass


class SocketStream:
    def __init__(self, local: socket.socket, remote: socket.socket, stderr: str) -> None:
        self._local, self._remote, self._stderr = local, remote, stderr

    def read_some(self, limit: int, timeout_s: float) -> bytes:
        data = self._local.recv(limit)
        if not data:
            raise AgentEnded("ended")
        return data

    def write(self, data: bytes, timeout_s: float) -> None:
        self._local.sendall(data)

    @property
    def in_flight(self) -> int | None:
        return None

    def stderr_text(self) -> str:
        return self._stderr

    def close(self) -> None:
        self._local.close()
        self._remote.close()


GREETING = pack_json({"workdir": "/w", "payload": "/p", "python": [3, 11, 0], "pid": 1})


HUGE = b"J" + (MAX_JSON + 1).to_bytes(4, "big")


@pytest.mark.parametrize(
    ("chunks", "code"),
    [
        ([hello("wrong"), GREETING], ExitCode.ENVIRONMENT),
        ([hello("NONCE"), b"J\0\0\0\x02[]"], ExitCode.TEMPORARY),
        ([hello("NONCE"), b"J\0\0\0\x02{}"], ExitCode.TEMPORARY),
        ([hello("NONCE"), b"J\0\0\0\x03{x}"], ExitCode.TEMPORARY),
        ([hello("NONCE"), pack_json({"workdir": "/w"})], ExitCode.TEMPORARY),
        ([hello("NONCE"), pack_json({"workdir": "/w", "python": 3, "pid": 1})], ExitCode.TEMPORARY),
        ([hello("NONCE"), pack_json({"workdir": "/w", "python": [3, "x"], "pid": 1})], ExitCode.TEMPORARY),
        ([hello("NONCE"), pack_json({"workdir": "/w", "python": [3, 11], "pid": {}})], ExitCode.TEMPORARY),
        ([hello("NONCE"), HUGE], ExitCode.TEMPORARY),
        ([hello("NONCE"), GREETING, HUGE], ExitCode.TEMPORARY),
        ([hello("NONCE"), GREETING, b"X\0\0\0\0"], ExitCode.TEMPORARY),
        ([hello("NONCE"), GREETING, pack_json({"neither": 1})], ExitCode.TEMPORARY),
        ([hello("NONCE"), GREETING, pack_json({"ok": "yes", "result": {}})], ExitCode.TEMPORARY),
        ([hello("NONCE"), b"WHAT\x1b[2J ever\n"], ExitCode.TEMPORARY),
        ([hello("NONCE"), b"y" * 100_000], ExitCode.ENVIRONMENT),
        ([hello("NONCE"), b"OWNER head /data\n", hello("NONCE"), GREETING], ExitCode.TEMPORARY),
        ([hello("NONCE"), b"DISK 28 No space left on device\n"], ExitCode.DISK),
        ([hello("NONCE"), b"WORKDIR Permission denied\n"], ExitCode.DISK),
    ],
)
def test_BI_56_garbled_data_is_refused(chunks: list[bytes], code: ExitCode) -> None:
    host = AgentHost("titan", Sends(*chunks), retries=ONCE)
    with pytest.raises(HalfstepError) as caught:
        host.ask("file.list", {"path": "x"})
    assert caught.value.exit_code is code
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize("image", ["", "torch:latest"])
@pytest.mark.parametrize("step", ["start docker", "engine ", "untrusted docker"])
def test_SE_09_a_host_without_a_container_does_not_choose_a_hint_for_containers(step: str, image: str) -> None:
    stderr = f"no container ({step}): permission denied while trying to connect to the docker socket\n"
    host = AgentHost("titan", Sends(stderr=stderr), retries=ONCE, python="/usr/bin/python3", image=image)
    with pytest.raises(HalfstepError) as caught:
        host.ask("file.list", {"path": "x"})
    assert isinstance(caught.value, ContainerUnavailable) is bool(image)
    assert "docker" not in caught.value.hint or image


@pytest.mark.parametrize("owners", [0, 3])
def test_SE_09_the_whole_start_of_an_agent_has_one_deadline(monkeypatch: pytest.MonkeyPatch, owners: int) -> None:
    monkeypatch.setattr("remote.link.agent_start.START_LIMIT_S", 0.0)
    lines = [hello("NONCE") + b"OWNER head /data\n"] * owners
    with pytest.raises(DeadlineExceeded, match="too slowly"):
        AgentHost("titan", Sends(*lines, hello("NONCE"), GREETING), retries=ONCE, trusts_owners=True).read_bytes("x")


def refusal(code: object) -> bytes:
    """Return an answer with an error of that exit code."""
    return pack_json({"ok": False, "error": {"kind": "bug", "message": "no", "exit_code": code}})


@pytest.mark.parametrize("code", [0, -1, 256, 3, True, False, 0.0, "22", None, [0], {}])
def test_SE_06_an_error_that_names_no_published_code_of_an_error_is_a_defect(code: object) -> None:
    host = AgentHost("titan", Sends(hello("NONCE"), GREETING, refusal(code)), retries=ONCE)
    with pytest.raises(RemoteFault) as caught:
        host.ask("file.list", {"path": "x"})
    assert caught.value.exit_code is ExitCode.BUG


def test_SE_06_an_error_that_names_a_published_code_keeps_it() -> None:
    host = AgentHost("titan", Sends(hello("NONCE"), GREETING, refusal(22)), retries=ONCE)
    with pytest.raises(RemoteFault) as caught:
        host.ask("file.list", {"path": "x"})
    assert caught.value.exit_code is ExitCode.DISK


def test_SE_06_an_error_of_ours_that_is_given_zero_keeps_the_code_of_its_kind() -> None:
    assert SyncRefused("no", exit_code=ExitCode.OK).exit_code is ExitCode.SYNC


EVIL = "\x1b]52;c;ZXZpbA==\x07 \x9b2J \u202e"


@pytest.mark.parametrize("result", [{"data": {EVIL: 1}}, {EVIL: {}}, {"tree": EVIL}, {}, {"data": [EVIL]}])
def test_SE_05_an_answer_of_another_shape_is_refused_in_words_fit_for_a_terminal(result: object) -> None:
    answer = pack_json({"ok": True, "result": result})
    host = AgentHost("titan", Sends(hello("NONCE"), GREETING, answer), retries=ONCE)
    with pytest.raises(Garbled) as caught:
        read_answer(Survey, host, host.ask("survey", {}))
    assert caught.value.exit_code is ExitCode.TEMPORARY
    assert caught.value.message == safe_text(caught.value.message)


@pytest.mark.parametrize(
    "text",
    [b'{"ok": true, "result": {"\\ud800\\u001b]52;c;x\\u0007": 1}}', b'{"ok": true, "result": {"a": ["\\uDBFF"]}}'],
    ids=["in a key", "in a value"],
)
def test_SE_05_a_lone_surrogate_in_an_answer_is_refused(text: bytes) -> None:
    host = AgentHost("titan", Sends(hello("NONCE"), GREETING, pack(FrameKind.JSON, text)), retries=ONCE)
    with pytest.raises(Garbled, match="lone surrogate"):
        host.ask("survey", {})


def test_SE_05_names_that_are_not_utf_8_and_escaped_surrogate_pairs_are_accepted() -> None:
    text = b'{"ok": true, "result": {"a\xff": "\\ud83d\\ude00 \\\\ud800"}}'
    host = AgentHost("titan", Sends(hello("NONCE"), GREETING, pack(FrameKind.JSON, text)), retries=ONCE)
    assert host.ask("survey", {}) == {"a\udcff": "\U0001f600 \\ud800"}


def test_SE_09_an_answer_nested_too_deeply_is_refused() -> None:
    text = b'{"ok": true, "result": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    with pytest.raises(BadFrame, match="nested"):
        parse_json(text)
