"""The choice of a Python for the agent if the first one that was found does not work."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path

import pytest

from remote.errors import HostUnfit
from remote.link.address import Address
from remote.link.agent import AgentHost
from remote.link.pythons import SEARCH_LIMIT_S, choose_python, find_python, parse_candidates
from remote.link.streams import LocalProcessStream, LocalStarter, ProcessStream
from remote.protocol.frames import hello


class WithoutTheUsual(LocalStarter):
    """A machine without Python in the usual places; it records what is started."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def start(self, argv: Sequence[str]) -> ProcessStream:
        self.started.append(argv[0])
        usual = len(self.started) == 1
        return super().start(("/bin/sh", "-c", "echo no python3 on PATH >&2; exit 127") if usual else argv)


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """An interpreter in an unusual place."""
    path = tmp_path / "conda" / "bin" / "python3.10"
    path.parent.mkdir(parents=True)
    path.symlink_to(sys.executable)
    return path


def test_the_interpreter_named_in_the_host_file_is_tried_first(named: Path) -> None:
    assert find_python(LocalStarter(), "here", "", str(named)) == str(named)
    assert find_python(LocalStarter(), "here", "") != str(named)


def test_the_interpreter_may_be_under_the_hosts_home_folder(
    named: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_python(LocalStarter(), "here", "", "~/conda/bin/python3.10") == str(named)


def test_an_interpreter_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    assert find_python(LocalStarter(), "here", "", str(tmp_path / "nope")) != str(tmp_path / "nope")


def test_the_agent_runs_with_the_named_interpreter_if_it_is_the_only_one(named: Path, tmp_path: Path) -> None:
    starter = WithoutTheUsual()
    host = AgentHost("here", starter, workdir=str(tmp_path / "work"), python=str(named))
    assert host.probe(["true"]).ok
    host.close()
    assert starter.started == ["/bin/sh", "/bin/sh", str(named)]


@pytest.mark.parametrize(
    ("written", "tried"), [("/mnt/conda/bin/python3", True), ("venv/bin/python", False), ("", False)]
)
def test_only_an_absolute_path_or_one_under_the_home_folder_is_tried(written: str, tried: bool, tmp_path: Path) -> None:
    address = replace(Address("here", "local", workdir=str(tmp_path)), python=written)
    assert address.python_outside_project == (written if tried else "")


@pytest.mark.parametrize(
    "version", ["3.9.\u00b2", "3.9." + "9" * 5000, "3..9", "3.9", "3.9.1.2", "3.x.9.1", "", "\u0663.9.1"]
)
def test_SE_07_a_version_with_other_characters_than_digits_is_no_version(version: str) -> None:
    [found] = parse_candidates(f"python3\t/usr/bin/python3\t{version}\n")
    assert found.version == () and choose_python((found,)) is None


def test_a_version_has_three_numbers() -> None:
    assert [one.version for one in parse_candidates("python3\t/p\t3.11.2\n")] == [(3, 11, 2)]


class Endless(LocalStarter):
    """A host that prints a candidate every 25 s, and never the end of the list."""

    def __init__(self) -> None:
        self.now = 0.0

    def start(self, argv: Sequence[str]) -> ProcessStream:
        rows = (f"a\t/b{number}\tno\n".encode() for number in count())
        return Slow(chain([hello(argv[4])], rows), 25.0, self)


class Slow(LocalProcessStream):
    def __init__(self, chunks: Iterator[bytes], step_s: float, clock: Endless) -> None:
        self._chunks, self._step_s, self._clock = chunks, step_s, clock

    def read_some(self, limit: int, timeout_s: float) -> bytes:
        self._clock.now += self._step_s
        return next(self._chunks)

    def stderr_text(self) -> str:
        return ""

    def close(self) -> None:
        pass


def test_the_search_for_a_python_has_one_deadline() -> None:
    starter = Endless()
    with pytest.raises(HostUnfit, match="can run the agent"):
        find_python(starter, "titan", "", clock=lambda: starter.now)
    assert starter.now < SEARCH_LIMIT_S + 60.0
