"""Read-only, dry-run and traced hosts: changes are stopped or recorded, reads pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from remote.errors import ChangeRefused, RemoteFault
from remote.host import Completed, Entry, Host
from remote.link.wrappers import PlannedChange, dry_run, read_only, traced
from tests.lab.fake_host import FakeHost

READS: dict[str, Callable[[Host], Any]] = {
    "probe": lambda host: host.probe(["uname"]),
    "read_bytes": lambda host: host.read_bytes("a"),
    "list_files": lambda host: host.list_files("."),
    "ask": lambda host: host.ask("survey", {"x": 1}),
    "fetch": lambda host: host.fetch("file.read", {}, [].append),
    "follow": lambda host: list(host.follow("events", {})),
}
CHANGES: dict[str, Callable[[Host], Any]] = {
    "run": lambda host: host.run(["rm", "a"], cwd="tree"),
    "write_bytes": lambda host: host.write_bytes("b", b"123"),
    "act": lambda host: host.act("job.start", {"run": "r"}),
    "send": lambda host: host.send("tree.receive", {}, [b"ab", b"c"]),
}


DOORS: list[Callable[[Host], Host]] = [
    read_only,
    lambda host: dry_run(host, []),
    lambda host: traced(host, lambda *calls: None),
]


def fake() -> FakeHost:
    return FakeHost(
        files={"/home/fake/halfstep/a": b"one"},
        operations={name: lambda args: {"got": args} for name in ("survey", "file.read", "job.start", "tree.receive")},
        streams={"file.read": [b"x", b"y"], "events": [{"step": 1}]},
        commands={name: lambda argv, stdin: Completed(0, b"Linux\n", b"") for name in ("uname", "rm")},
    )


def test_the_tables_name_every_method_of_a_host() -> None:
    methods = {name for name, _ in inspect.getmembers(Host, inspect.isfunction) if not name.startswith("_")}
    assert methods == set(READS) | set(CHANGES) | {"close"}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("method", sorted(READS))
def test_reads_pass_every_wrapper_unchanged(door: Callable[[Host], Host], method: str) -> None:
    inner, plain = fake(), fake()
    assert READS[method](door(inner)) == READS[method](plain)
    assert inner.calls == plain.calls
    behind = door(inner)
    assert (behind.name, behind.workdir, behind.in_flight) == (plain.name, plain.workdir, plain.in_flight)


@pytest.mark.parametrize("method", sorted(CHANGES))
def test_a_read_only_host_refuses_every_change_before_it_is_sent(method: str) -> None:
    inner = fake()
    with pytest.raises(ChangeRefused, match="fake"):
        CHANGES[method](read_only(inner))
    assert inner.calls == []


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("run", PlannedChange("run", "rm", {"argv": ["rm", "a"], "cwd": "tree"})),
        ("write_bytes", PlannedChange("write_bytes", "b", {"mode": 0o644}, 3)),
        ("act", PlannedChange("act", "job.start", {"run": "r"})),
        ("send", PlannedChange("send", "tree.receive", {}, 3)),
    ],
)
def test_a_dry_run_writes_the_change_down_and_makes_none(method: str, change: PlannedChange) -> None:
    inner = fake()
    changes: list[PlannedChange] = []
    CHANGES[method](dry_run(inner, changes))
    assert changes == [change]
    assert inner.calls == []


@pytest.mark.parametrize("method", sorted(READS | CHANGES))
def test_a_traced_host_reports_every_call_once(method: str) -> None:
    calls: list[tuple[str, str, float]] = []
    inner = fake()
    (READS | CHANGES)[method](traced(inner, lambda *call: calls.append(call)))
    assert [method for method, _ in inner.calls] == [method]
    assert [call[0] for call in calls] == [method]
    assert calls[0][2] >= 0.0


def test_a_traced_host_reports_calls_that_fail() -> None:
    calls: list[str] = []
    with pytest.raises(RemoteFault):
        traced(fake(), lambda method, subject, seconds: calls.append(subject)).ask("nothing")
    assert calls == ["nothing"]


@pytest.mark.parametrize("door", DOORS)
def test_closing_a_wrapper_closes_the_host(door: Callable[[Host], Host]) -> None:
    inner = fake()
    door(inner).close()
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
