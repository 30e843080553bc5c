"""Read-only hosts: changes are refused, reads pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from remote.errors import ChangeRefused, RemoteFault
from remote.host import Completed, Entry, Host
from remote.link.read_only import ReadOnlyHost
from tests.lab.fake_host import FakeHost

READS: dict[str, Callable[[Host], Any]] = {
    "probe": lambda host: host.probe(["uname"]),
    "read_bytes": lambda host: host.read_bytes("a"),
    "list_files": lambda host: host.list_files("."),
    "ask": lambda host: host.ask("survey", {"x": 1}),
    "fetch": lambda host: host.fetch("file.read", {}, [].append, limit=1000),
    "follow": lambda host: list(host.follow("events", {})),
}
CHANGES: dict[str, Callable[[Host], Any]] = {
    "run": lambda host: host.run(["rm", "a"], cwd="tree"),
    "write_bytes": lambda host: host.write_bytes("b", b"123"),
    "act": lambda host: host.act("job.start", {"run": "r"}),
    "send": lambda host: host.send("tree.receive", {}, [b"ab", b"c"]),
}


def fake() -> FakeHost:
    return FakeHost(
        files={"/home/fake/halfstep/a": b"one"},
        operations={name: lambda args: {"got": args} for name in ("survey", "file.read", "job.start", "tree.receive")},
        streams={"file.read": [b"x", b"y"], "events": [{"step": 1}]},
        commands={name: lambda argv, stdin: Completed(0, b"Linux\n", b"") for name in ("uname", "rm")},
    )


def test_the_tables_of_this_test_list_every_method_of_a_host() -> None:
    methods = {name for name, _ in inspect.getmembers(Host, inspect.isfunction) if not name.startswith("_")}
    assert methods == set(READS) | set(CHANGES) | {"close"}


@pytest.mark.parametrize("method", sorted(READS))
def test_reading_calls_are_passed_on_unchanged(method: str) -> None:
    inner, plain = fake(), fake()
    assert READS[method](ReadOnlyHost(inner)) == READS[method](plain)
    assert inner.calls == plain.calls
    behind = ReadOnlyHost(inner)
    assert (behind.name, behind.workdir, behind.in_flight) == (plain.name, plain.workdir, plain.in_flight)


@pytest.mark.parametrize("method", sorted(CHANGES))
def test_a_read_only_host_refuses_every_change_before_it_is_sent(method: str) -> None:
    inner = fake()
    with pytest.raises(ChangeRefused, match="fake"):
        CHANGES[method](ReadOnlyHost(inner))
    assert inner.calls == []


def test_closing_it_closes_the_host() -> None:
    inner = fake()
    ReadOnlyHost(inner).close()
    assert inner.closed


def test_a_fake_host_keeps_what_is_written_and_lists_it() -> None:
    host = FakeHost()
    host.write_bytes("tree/a/b.py", b"x = 1\n", mode=0o755)
    assert host.read_bytes("tree/a/b.py") == b"x = 1\n"
    assert host.list_files("tree") == (Entry("a/b.py", "f", 6, 0o755),)
    assert host.changes == [("write_bytes", "tree/a/b.py")]
    with pytest.raises(FileNotFoundError):
        host.read_bytes("tree/a")


def test_a_fake_host_refuses_what_is_not_scripted_as_a_real_one_does() -> None:
    host = FakeHost()
    with pytest.raises(RemoteFault) as refused:
        host.ask("no.such.operation")
    assert refused.value.kind == "unknown-operation"
    assert host.probe(["nothing"]).exit == 127
