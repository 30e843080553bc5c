"""FI-38: one garbage answer is one error; text before the answer is skipped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from remote.errors import HalfstepError
from remote.link.agent import AgentHost
from remote.link.agent_start import Retries
from remote.link.streams import LocalStarter, ProcessStream
from remote.protocol.exits import ExitCode
from tests.lab.payload import install_payload

THREE = Retries(tries=3, first_wait_s=0.01)
BANNER = (
    b"\x1b[2J*** maintenance on Sunday ***\r\n" + b"J\0\0\0\x02{}" + b'{"ok": true, "result": {}}\n' + bytes(70_000)
)


@dataclass
class PrefixedStream:
    """A connection to a real agent that delivers the bytes `before` ahead of the agent's output."""

    wire: ProcessStream
    before: list[bytes] = field(default_factory=list)

    def read_some(self, limit: int, timeout_s: float) -> bytes:
        if self.before:
            chunk, self.before[0] = self.before[0][:limit], self.before[0][limit:]
            if not self.before[0]:
                del self.before[0]
            return chunk
        return self.wire.read_some(limit, timeout_s)

    def write(self, data: bytes, timeout_s: float) -> None:
        self.wire.write(data, timeout_s)

    @property
    def in_flight(self) -> int | None:
        return self.wire.in_flight

    def stderr_text(self) -> str:
        return self.wire.stderr_text()

    def close(self) -> None:
        self.wire.close()


class Starter:
    """Starts local agents behind a PrefixedStream.

    Each stream first delivers one of `banners`, if one is left.
    """

    def __init__(self, *banners: bytes) -> None:
        self._starter = LocalStarter()
        self.banners = list(banners)
        self.wires: list[PrefixedStream] = []

    def start(self, argv: Sequence[str]) -> ProcessStream:
        banner = [self.banners.pop(0)] if self.banners else []
        self.wires.append(PrefixedStream(self._starter.start(argv), banner))
        return self.wires[-1]

    def describe(self) -> tuple[tuple[str, str], ...]:
        return ()

    def warnings(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        self._starter.close()


@pytest.fixture
def starter() -> Starter:
    return Starter()


@pytest.fixture
def host(starter: Starter, tmp_path: Path) -> Iterator[AgentHost]:
    host = AgentHost("titan", starter, workdir=str(install_payload(tmp_path / "work", byte_code=False)), retries=THREE)
    yield host
    host.close()


def test_FI_38_a_banner_on_standard_output_is_skipped(host: AgentHost, starter: Starter) -> None:
    starter.banners.append(BANNER)
    assert host.probe(["echo", "well"]).stdout == b"well\n"
    assert len(starter.wires) == 1


@pytest.mark.parametrize(
    "garbage",
    [
        b'J\0\0\0\x05{"ok"',
        b"J\0\0\0\x02[]",
        b"Last login: Friday\r\n",
        b"J\xff\xff\xff\xff",
        bytes(5),
        b"J\0\0\0\x02{}",
    ],
    ids=["half-json", "no-object", "banner", "4-gib", "zeros", "neither-result-nor-error"],
)
def test_FI_38_a_garbage_answer_is_reported_once_and_the_next_answer_is_accepted(
    host: AgentHost, starter: Starter, garbage: bytes
) -> None:
    assert host.probe(["true"]).ok
    starter.wires[0].before.append(garbage)

    with pytest.raises(HalfstepError, match="garbled data from titan") as caught:
        host.probe(["echo", "never believed"])

    assert caught.value.exit_code is ExitCode.TEMPORARY
    assert "try again" in caught.value.hint
    assert "\x1b" not in str(caught.value)
    assert host.probe(["echo", "well"]).stdout == b"well\n"
    assert len(starter.wires) == 2, "a line that is out of step is not used again"


def test_FI_38_a_change_answered_with_garbage_is_not_made_twice(
    host: AgentHost, starter: Starter, tmp_path: Path
) -> None:
    assert host.probe(["true"]).ok
    count = tmp_path / "count"
    starter.wires[0].before.append(b"garbage")
    with pytest.raises(HalfstepError) as caught:
        host.run(["sh", "-c", 'echo once >> "$0"', str(count)])
    assert caught.value.exit_code is ExitCode.TEMPORARY
    assert host.run(["true"]).ok
    assert not count.exists() or count.read_text() == "once\n"
