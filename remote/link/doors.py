"""Hosts around a host: one that only lets look, one that writes down what would be done, one that tells of calls."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from remote.errors import ChangeRefused
from remote.host import Completed, Entry, Host, Json

Tell = Callable[[str, str, float], None]
"""Takes the method, what it was about, and the seconds it took."""


@dataclass(frozen=True)
class Wish:
    """One change that would have been made: the method, and what it was about."""

    method: str
    what: str
    args: Mapping[str, Any] = field(default_factory=dict)
    size_bytes: int = 0


class Guard(Protocol):
    """What stands in a door."""

    def lets(self, method: str, what: str, args: Mapping[str, Any], size: Callable[[], int]) -> bool:
        """Whether a change is made; where it is not, it is answered with nothing done. May raise instead."""
        ...

    def around(self, method: str, what: str) -> AbstractContextManager[None]:
        """Entered while a call is under way."""
        ...


def read_only(host: Host) -> Door:
    """The host, looked at only: whatever would change it raises ChangeRefused before anything is sent."""
    return Door(host, _Refusing(host.name))


def dry_run(host: Host, wishes: list[Wish]) -> Door:
    """The host, looked at; what would change it is put down in `wishes` and answered with nothing done."""
    return Door(host, _Noting(wishes))


def traced(host: Host, tell: Tell) -> Door:
    """The host; each call is told when it ends, well or not."""
    return Door(host, _Telling(tell))


class Door:
    """The host behind a guard, who is asked before every change and knows of every call."""

    def __init__(self, host: Host, guard: Guard) -> None:
        self._host = host
        self._guard = guard

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def workdir(self) -> str:
        return self._host.workdir

    @property
    def in_flight(self) -> int | None:
        return self._host.in_flight

    def probe(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed:
        with self._guard.around("probe", argv[0]):
            return self._host.probe(argv, stdin=stdin, timeout_s=timeout_s)

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", cwd: str | None = None, timeout_s: float = 600.0
    ) -> Completed:
        if not self._guard.lets("run", argv[0], {"argv": list(argv), "cwd": cwd}, lambda: len(stdin)):
            return Completed(0, b"", b"")
        with self._guard.around("run", argv[0]):
            return self._host.run(argv, stdin=stdin, cwd=cwd, timeout_s=timeout_s)

    def read_bytes(self, path: str) -> bytes:
        with self._guard.around("read_bytes", path):
            return self._host.read_bytes(path)

    def write_bytes(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        if self._guard.lets("write_bytes", path, {"mode": mode}, lambda: len(data)):
            with self._guard.around("write_bytes", path):
                self._host.write_bytes(path, data, mode=mode)

    def list_files(self, path: str) -> tuple[Entry, ...]:
        with self._guard.around("list_files", path):
            return self._host.list_files(path)

    def ask(self, op: str, args: Mapping[str, Any] | None = None, *, timeout_s: float = 60.0) -> Json:
        with self._guard.around("ask", op):
            return self._host.ask(op, args, timeout_s=timeout_s)

    def act(
        self,
        op: str,
        args: Mapping[str, Any] | None = None,
        *,
        timeout_s: float = 600.0,
        on_event: Callable[[Json], None] | None = None,
    ) -> Json:
        if not self._guard.lets("act", op, dict(args or {}), lambda: 0):
            return {}
        with self._guard.around("act", op):
            return self._host.act(op, args, timeout_s=timeout_s, on_event=on_event)

    def send(self, op: str, args: Mapping[str, Any], chunks: Iterable[bytes], *, timeout_s: float = 60.0) -> Json:
        if not self._guard.lets("send", op, dict(args), lambda: sum(len(chunk) for chunk in chunks)):
            return {}
        with self._guard.around("send", op):
            return self._host.send(op, args, chunks, timeout_s=timeout_s)

    def fetch(
        self, op: str, args: Mapping[str, Any], sink: Callable[[bytes], None], *, timeout_s: float = 60.0
    ) -> Json:
        with self._guard.around("fetch", op):
            return self._host.fetch(op, args, sink, timeout_s=timeout_s)

    def follow(self, op: str, args: Mapping[str, Any], *, timeout_s: float = 45.0) -> Iterator[Json]:
        with self._guard.around("follow", op):
            yield from self._host.follow(op, args, timeout_s=timeout_s)

    def close(self) -> None:
        self._host.close()


class _Refusing:
    def __init__(self, name: str) -> None:
        self._name = name

    def lets(self, method: str, what: str, args: Mapping[str, Any], size: Callable[[], int]) -> bool:
        verb = {"run": "running ", "write_bytes": "writing "}.get(method, "")
        raise ChangeRefused(
            f"{verb}{what} would change {self._name}, which may only be looked at here", where=self._name
        )

    def around(self, method: str, what: str) -> AbstractContextManager[None]:
        return contextlib.nullcontext()


class _Noting:
    def __init__(self, wishes: list[Wish]) -> None:
        self._wishes = wishes

    def lets(self, method: str, what: str, args: Mapping[str, Any], size: Callable[[], int]) -> bool:
        self._wishes.append(Wish(method, what, args, size()))
        return False

    def around(self, method: str, what: str) -> AbstractContextManager[None]:
        return contextlib.nullcontext()


class _Telling:
    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def lets(self, method: str, what: str, args: Mapping[str, Any], size: Callable[[], int]) -> bool:
        return True

    @contextlib.contextmanager
    def around(self, method: str, what: str) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self._tell(method, what, time.monotonic() - start)
