"""A host that answers from a dictionary."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from remote.errors import RemoteFault
from remote.host import Completed, Entry, Json
from remote.protocol.exits import ExitCode

Script = Callable[[Json], Json]
"""A function that returns an operation's answer for its arguments, or raises the error of a host."""


@dataclass
class FakeHost:
    """Files in memory, scripted operations and commands, and a record of every call.

    `operations` maps the name of an operation to its answer, `commands` argv[0] to the result of a command. `streams`
    maps an operation to the chunks of a `fetch`, or to the events of a `follow` or `act`. Everything else is refused
    with the error of a real host. `calls` lists (method, operation or argv[0] or path); `sent` lists the bytes of every
    send.
    """

    name: str = "fake"
    workdir: str = "/home/fake/halfstep"
    files: dict[str, bytes] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    operations: dict[str, Script] = field(default_factory=dict)
    streams: dict[str, Sequence[Any]] = field(default_factory=dict)
    commands: dict[str, Callable[[Sequence[str], bytes], Completed]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    sent: list[tuple[str, bytes]] = field(default_factory=list)
    closed: bool = False

    @property
    def in_flight(self) -> int | None:
        return 0

    @property
    def changes(self) -> list[tuple[str, str]]:
        """The calls that would have changed a host."""
        return [call for call in self.calls if call[0] in ("run", "write_bytes", "act", "send")]

    def _path(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.workdir, path))

    def _answer(self, method: str, op: str, args: Mapping[str, Any] | None) -> Json:
        self.calls.append((method, op))
        if op not in self.operations:
            raise RemoteFault(f"unknown operation {op!r}", kind="unknown-operation", exit_code=ExitCode.BUG)
        return self.operations[op](dict(args or {}))

    def _command(self, method: str, argv: Sequence[str], stdin: bytes) -> Completed:
        self.calls.append((method, argv[0]))
        if argv[0] not in self.commands:
            return Completed(127, b"", f"{argv[0]}: not found".encode())
        return self.commands[argv[0]](argv, stdin)

    def probe(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed:
        return self._command("probe", argv, stdin)

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", cwd: str | None = None, timeout_s: float = 600.0
    ) -> Completed:
        return self._command("run", argv, stdin)

    def read_bytes(self, path: str) -> bytes:
        self.calls.append(("read_bytes", path))
        try:
            return self.files[self._path(path)]
        except KeyError:
            raise FileNotFoundError(path) from None

    def write_bytes(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self.calls.append(("write_bytes", path))
        self.files[self._path(path)] = data
        self.modes[self._path(path)] = mode

    def list_files(self, path: str) -> tuple[Entry, ...]:
        self.calls.append(("list_files", path))
        root = self._path(path) + "/"
        return tuple(
            Entry(name.removeprefix(root), "f", len(data), self.modes.get(name, 0o644))
            for name, data in sorted(self.files.items())
            if name.startswith(root)
        )

    def ask(self, op: str, args: Mapping[str, Any] | None = None, *, timeout_s: float = 60.0) -> Json:
        return self._answer("ask", op, args)

    def act(
        self,
        op: str,
        args: Mapping[str, Any] | None = None,
        *,
        timeout_s: float = 600.0,
        on_event: Callable[[Json], None] | None = None,
    ) -> Json:
        if on_event is not None:
            for event in self.streams.get(op, ()):
                on_event(event)
        return self._answer("act", op, args)

    def send(self, op: str, args: Mapping[str, Any], chunks: Iterable[bytes], *, timeout_s: float = 60.0) -> Json:
        self.sent.append((op, b"".join(chunks)))
        return self._answer("send", op, args)

    def fetch(
        self,
        op: str,
        args: Mapping[str, Any],
        sink: Callable[[bytes], None],
        *,
        limit: int,
        timeout_s: float = 60.0,
    ) -> Json:
        answer = self._answer("fetch", op, args)
        for chunk in self.streams.get(op, ()):
            sink(chunk)
        return answer

    def follow(
        self, op: str, args: Mapping[str, Any], *, timeout_s: float = 45.0, within_s: float = inf
    ) -> Iterator[Json]:
        self.calls.append(("follow", op))
        yield from self.streams.get(op, ())

    def close(self) -> None:
        self.closed = True
