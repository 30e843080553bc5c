"""The command line that starts an agent, which every user of the host can read, contains no request with secrets."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from remote.errors import HalfstepError
from remote.link.agent import FIRST_OPERATIONS, AgentHost
from remote.link.agent_start import Retries
from remote.link.bootstrap import MAX_FIRST_REQUEST
from remote.link.streams import LocalStarter, ProcessStream
from remote.payload.operations import OPERATIONS
from tests.lab.payload import install_payload

TOKEN = "hf_SECRETsecretSECRETsecret"
REQUEST = {"project": "p-1", "python": sys.executable, "environment": {"HF_TOKEN": TOKEN}, "repo": "a/b"}


class Recorded:
    """A starter on this machine that records the command lines."""

    def __init__(self) -> None:
        self._starter = LocalStarter()
        self.command_lines: list[Sequence[str]] = []

    def start(self, argv: Sequence[str]) -> ProcessStream:
        self.command_lines.append(argv)
        return self._starter.start(argv)

    def describe(self) -> tuple[tuple[str, str], ...]:
        return ()

    def warnings(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        self._starter.close()

    def first_requests(self) -> list[bytes]:
        """Return the requests in the command lines."""
        return [base64.b64decode(words[-1]) for words in self.command_lines]


@pytest.fixture
def starter() -> Recorded:
    return Recorded()


@pytest.fixture
def host(starter: Recorded, tmp_path: Path) -> AgentHost:
    return AgentHost(
        "here",
        starter,
        workdir=str(install_payload(tmp_path / "work", byte_code=False)),
        retries=Retries(first_wait_s=0.01),
    )


@pytest.mark.parametrize("op", ["fix.hub.look", "fix.tokenizer.look", "fix.tokenizer.hub", "fix.audio.look"])
@pytest.mark.parametrize("connected", [False, True], ids=["first call", "after a lost connection"])
def test_SE_10_a_request_with_a_secret_is_never_in_a_command_line(
    starter: Recorded, host: AgentHost, op: str, connected: bool
) -> None:
    if connected:
        os.kill(host.greeting["pid"], signal.SIGKILL)
    with contextlib.suppress(HalfstepError):
        host.ask(op, {**REQUEST, "python": 1})
    host.close()
    assert len(starter.command_lines) == 1 + connected
    assert all(request == b"" for request in starter.first_requests())


def test_SE_10_neither_is_that_of_an_answer_in_events(starter: Recorded, host: AgentHost) -> None:
    with pytest.raises(HalfstepError):
        list(host.follow("proof.run", {"environment": {"HF_TOKEN": TOKEN}}))
    host.close()
    assert starter.first_requests() == [b""]


def test_a_survey_needs_no_round_trip_of_its_own_unless_it_is_too_long(starter: Recorded, host: AgentHost) -> None:
    for project in ("p-1", "p" * MAX_FIRST_REQUEST):
        with pytest.raises(HalfstepError):
            host.ask("survey", {"project": project, "python": 1})
        host.close()
    first, second = starter.first_requests()
    assert b'"p-1"' in first and second == b""


def test_operations_of_a_first_request_change_nothing() -> None:
    assert [op for op in FIRST_OPERATIONS if OPERATIONS[op].changes] == []
