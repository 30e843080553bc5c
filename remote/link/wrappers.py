"""Wrappers around a host: read-only, dry-run, and tracing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from remote.errors import ChangeRefused
from remote.host import Completed, Entry, Host, Json

OnCall = Callable[[str, str, float], None]
"""Called with the method, its subject (a program, path or operation) and the seconds that it took."""


@dataclass(frozen=True)
class PlannedChange:
    """A change that a dry run did not make: the method and its subject."""

    method: str
    subject: str
    args: Mapping[str, Any] = field(default_factory=dict)
    size_bytes: int = 0


class CallPolicy(Protocol):
    """Decides about each call of a wrapped host."""

    def allows(self, method: str, subject: str, args: Mapping[str, Any], size: Callable[[], int]) -> bool:
        """Return whether to make a change; if not, the call returns an empty result. May raise instead."""
        ...

    def observe(self, method: str, subject: str) -> AbstractContextManager[None]:
        """Return a context that is entered during a call."""
        ...


def read_only(host: Host) -> HostWrapper:
    """Return a host on which every change raises ChangeRefused before anything is sent."""
    return HostWrapper(host, _ReadOnly(host.name))


def dry_run(host: Host, changes: list[PlannedChange]) -> HostWrapper:
    """Return a host on which every change is appended to `changes` instead of made."""
    return HostWrapper(host, _DryRun(changes))


def traced(host: Host, on_call: OnCall) -> HostWrapper:
    """Return a host on which `on_call` is called at the end of each call, successful or not."""
    return HostWrapper(host, _Traced(on_call))


class HostWrapper:
    """A host whose calls go through a CallPolicy."""

    def __init__(self, host: Host, policy: CallPolicy) -> None:
        self._host = host
        self._policy = policy

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
        with self._policy.observe("probe", argv[0]):
            return self._host.probe(argv, stdin=stdin, timeout_s=timeout_s)

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", cwd: str | None = None, timeout_s: float = 600.0
    ) -> Completed:
        if not self._policy.allows("run", argv[0], {"argv": list(argv), "cwd": cwd}, lambda: len(stdin)):
            return Completed(0, b"", b"")
        with self._policy.observe("run", argv[0]):
            return self._host.run(argv, stdin=stdin, cwd=cwd, timeout_s=timeout_s)

    def read_bytes(self, path: str) -> bytes:
        with self._policy.observe("read_bytes", path):
            return self._host.read_bytes(path)

    def write_bytes(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        if self._policy.allows("write_bytes", path, {"mode": mode}, lambda: len(data)):
            with self._policy.observe("write_bytes", path):
                self._host.write_bytes(path, data, mode=mode)

    def list_files(self, path: str) -> tuple[Entry, ...]:
        with self._policy.observe("list_files", path):
            return self._host.list_files(path)

    def ask(self, op: str, args: Mapping[str, Any] | None = None, *, timeout_s: float = 60.0) -> Json:
        with self._policy.observe("ask", op):
            return self._host.ask(op, args, timeout_s=timeout_s)

    def act(
        self,
        op: str,
        args: Mapping[str, Any] | None = None,
        *,
        timeout_s: float = 600.0,
        on_event: Callable[[Json], None] | None = None,
    ) -> Json:
        if not self._policy.allows("act", op, dict(args or {}), lambda: 0):
            return {}
        with self._policy.observe("act", op):
            return self._host.act(op, args, timeout_s=timeout_s, on_event=on_event)

    def send(self, op: str, args: Mapping[str, Any], chunks: Iterable[bytes], *, timeout_s: float = 60.0) -> Json:
        if not self._policy.allows("send", op, dict(args), lambda: sum(len(chunk) for chunk in chunks)):
            return {}
        with self._policy.observe("send", op):
            return self._host.send(op, args, chunks, timeout_s=timeout_s)

    def fetch(
        self, op: str, args: Mapping[str, Any], sink: Callable[[bytes], None], *, timeout_s: float = 60.0
    ) -> Json:
        with self._policy.observe("fetch", op):
            return self._host.fetch(op, args, sink, timeout_s=timeout_s)

    def follow(self, op: str, args: Mapping[str, Any], *, timeout_s: float = 45.0) -> Iterator[Json]:
        with self._policy.observe("follow", op):
            yield from self._host.follow(op, args, timeout_s=timeout_s)

    def close(self) -> None:
        self._host.close()


class _ReadOnly:
    def __init__(self, name: str) -> None:
        self._name = name

    def allows(self, method: str, subject: str, args: Mapping[str, Any], size: Callable[[], int]) -> bool:
        verb = {"run": "running ", "write_bytes": "writing "}.get(method, "")
        raise ChangeRefused(f"{verb}{subject} would change {self._name}, which is read-only here", where=self._name)

    def observe(self, method: str, subject: str) -> AbstractContextManager[None]:
        return contextlib.nullcontext()


class _DryRun:
    def __init__(self, changes: list[PlannedChange]) -> None:
        self._changes = changes

    def allows(self, method: str, subject: str, args: Mapping[str, Any], size: Callable[[], int]) -> bool:
        self._changes.append(PlannedChange(method, subject, args, size()))
        return False

    def observe(self, method: str, subject: str) -> AbstractContextManager[None]:
        return contextlib.nullcontext()


class _Traced:
    def __init__(self, on_call: OnCall) -> None:
        self._on_call = on_call

    def allows(self, method: str, subject: str, args: Mapping[str, Any], size: Callable[[], int]) -> bool:
        return True

    @contextlib.contextmanager
    def observe(self, method: str, subject: str) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self._on_call(method, subject, time.monotonic() - start)
