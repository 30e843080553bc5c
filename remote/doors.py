"""Hosts around a host: one that only lets look, one that writes down what would be done, one that tells of calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from remote.errors import ChangeRefused
from remote.host import Completed, Entry, Host, Json


class ReadOnly:
    """The host, looked at only: whatever would change it raises ChangeRefused before anything is sent."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def workdir(self) -> str:
        return self._host.workdir

    def _refuse(self, what: str) -> ChangeRefused:
        return ChangeRefused(f"{what} would change {self.name}, which may only be looked at here", where=self.name)

    def probe(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed:
        return self._host.probe(argv, stdin=stdin, timeout_s=timeout_s)

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", cwd: str | None = None, timeout_s: float = 600.0
    ) -> Completed:
        raise self._refuse(f"running {argv[0]}")

    def read_bytes(self, path: str) -> bytes:
        return self._host.read_bytes(path)

    def write_bytes(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        raise self._refuse(f"writing {path}")

    def list_files(self, path: str) -> tuple[Entry, ...]:
        return self._host.list_files(path)

    def ask(self, op: str, args: Mapping[str, Any] | None = None, *, timeout_s: float = 60.0) -> Json:
        return self._host.ask(op, args, timeout_s=timeout_s)

    def act(self, op: str, args: Mapping[str, Any] | None = None, *, timeout_s: float = 600.0) -> Json:
        raise self._refuse(op)

    def send(self, op: str, args: Mapping[str, Any], chunks: Iterable[bytes], *, timeout_s: float = 60.0) -> Json:
        raise self._refuse(op)

    def fetch(
        self, op: str, args: Mapping[str, Any], sink: Callable[[bytes], None], *, timeout_s: float = 60.0
    ) -> Json:
        return self._host.fetch(op, args, sink, timeout_s=timeout_s)

    def follow(self, op: str, args: Mapping[str, Any], *, timeout_s: float = 45.0) -> Iterator[Json]:
        return self._host.follow(op, args, timeout_s=timeout_s)

    def close(self) -> None:
        self._host.close()


@dataclass(frozen=True)
class Wish:
    """One change that would have been made: the method, and what it was about."""

    method: str
    what: str
    args: Mapping[str, Any] = field(default_factory=dict)
    size_bytes: int = 0


class DryRun:
    """The host, looked at; what would change it is written down in `wishes` and answered with nothing done."""

    def __init__(self, host: Host) -> None:
        self._host = ReadOnly(host)
        self.wishes: list[Wish] = []

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def workdir(self) -> str:
        return self._host.workdir

    def probe(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed:
        return self._host.probe(argv, stdin=stdin, timeout_s=timeout_s)

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", cwd: str | None = None, timeout_s: float = 600.0
    ) -> Completed:
        self.wishes.append(Wish("run", argv[0], {"argv": list(argv), "cwd": cwd}, len(stdin)))
        return Completed(0, b"", b"")

    def read_bytes(self, path: str) -> bytes:
        return self._host.read_bytes(path)

    def write_bytes(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self.wishes.append(Wish("write_bytes", path, {"mode": mode}, len(data)))

    def list_files(self, path: str) -> tuple[Entry, ...]:
        return self._host.list_files(path)

    def ask(self, op: str, args: Mapping[str, Any] | None = None, *, timeout_s: float = 60.0) -> Json:
        return self._host.ask(op, args, timeout_s=timeout_s)

    def act(self, op: str, args: Mapping[str, Any] | None = None, *, timeout_s: float = 600.0) -> Json:
        self.wishes.append(Wish("act", op, dict(args or {})))
        return {}

    def send(self, op: str, args: Mapping[str, Any], chunks: Iterable[bytes], *, timeout_s: float = 60.0) -> Json:
        self.wishes.append(Wish("send", op, dict(args), sum(len(chunk) for chunk in chunks)))
        return {}

    def fetch(
        self, op: str, args: Mapping[str, Any], sink: Callable[[bytes], None], *, timeout_s: float = 60.0
    ) -> Json:
        return self._host.fetch(op, args, sink, timeout_s=timeout_s)

    def follow(self, op: str, args: Mapping[str, Any], *, timeout_s: float = 45.0) -> Iterator[Json]:
        return self._host.follow(op, args, timeout_s=timeout_s)

    def close(self) -> None:
        self._host.close()


Result = TypeVar("Result")
Tell = Callable[[str, str, float], None]
"""Takes the method, what it was about, and the seconds it took."""


class Traced:
    """The host; each call is told when it ends, well or not."""

    def __init__(self, host: Host, tell: Tell) -> None:
        self._host = host
        self._tell = tell

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def workdir(self) -> str:
        return self._host.workdir

    def _timed(self, method: str, what: str, call: Callable[[], Result]) -> Result:
        start = time.monotonic()
        try:
            return call()
        finally:
            self._tell(method, what, time.monotonic() - start)

    def probe(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed:
        return self._timed("probe", argv[0], lambda: self._host.probe(argv, stdin=stdin, timeout_s=timeout_s))

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", cwd: str | None = None, timeout_s: float = 600.0
    ) -> Completed:
        return self._timed("run", argv[0], lambda: self._host.run(argv, stdin=stdin, cwd=cwd, timeout_s=timeout_s))

    def read_bytes(self, path: str) -> bytes:
        return self._timed("read_bytes", path, lambda: self._host.read_bytes(path))

    def write_bytes(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self._timed("write_bytes", path, lambda: self._host.write_bytes(path, data, mode=mode))

    def list_files(self, path: str) -> tuple[Entry, ...]:
        return self._timed("list_files", path, lambda: self._host.list_files(path))

    def ask(self, op: str, args: Mapping[str, Any] | None = None, *, timeout_s: float = 60.0) -> Json:
        return self._timed("ask", op, lambda: self._host.ask(op, args, timeout_s=timeout_s))

    def act(self, op: str, args: Mapping[str, Any] | None = None, *, timeout_s: float = 600.0) -> Json:
        return self._timed("act", op, lambda: self._host.act(op, args, timeout_s=timeout_s))

    def send(self, op: str, args: Mapping[str, Any], chunks: Iterable[bytes], *, timeout_s: float = 60.0) -> Json:
        return self._timed("send", op, lambda: self._host.send(op, args, chunks, timeout_s=timeout_s))

    def fetch(
        self, op: str, args: Mapping[str, Any], sink: Callable[[bytes], None], *, timeout_s: float = 60.0
    ) -> Json:
        return self._timed("fetch", op, lambda: self._host.fetch(op, args, sink, timeout_s=timeout_s))

    def follow(self, op: str, args: Mapping[str, Any], *, timeout_s: float = 45.0) -> Iterator[Json]:
        start = time.monotonic()
        try:
            yield from self._host.follow(op, args, timeout_s=timeout_s)
        finally:
            self._tell("follow", op, time.monotonic() - start)

    def close(self) -> None:
        self._host.close()
