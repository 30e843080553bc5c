"""A host on which every change is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NoReturn

from remote.errors import ChangeRefused
from remote.host import Completed, Entry, Host, Json


class ReadOnlyHost:
    """A host on which every change raises ChangeRefused before anything is sent."""

    def __init__(self, host: Host) -> None:
        self._host = host

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
        return self._host.probe(argv, stdin=stdin, timeout_s=timeout_s)

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", cwd: str | None = None, timeout_s: float = 600.0
    ) -> Completed:
        self._refuse(f"running {argv[0]}")

    def read_bytes(self, path: str) -> bytes:
        return self._host.read_bytes(path)

    def write_bytes(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self._refuse(f"writing {path}")

    def list_files(self, path: str) -> tuple[Entry, ...]:
        return self._host.list_files(path)

    def ask(self, op: str, args: Mapping[str, Any] | None = None, *, timeout_s: float = 60.0) -> Json:
        return self._host.ask(op, args, timeout_s=timeout_s)

    def act(
        self,
        op: str,
        args: Mapping[str, Any] | None = None,
        *,
        timeout_s: float = 600.0,
        on_event: Callable[[Json], None] | None = None,
    ) -> Json:
        self._refuse(op)

    def send(self, op: str, args: Mapping[str, Any], chunks: Iterable[bytes], *, timeout_s: float = 60.0) -> Json:
        self._refuse(op)

    def fetch(
        self,
        op: str,
        args: Mapping[str, Any],
        sink: Callable[[bytes], None],
        *,
        limit: int,
        timeout_s: float = 60.0,
    ) -> Json:
        return self._host.fetch(op, args, sink, limit=limit, timeout_s=timeout_s)

    def follow(
        self, op: str, args: Mapping[str, Any], *, timeout_s: float = 45.0, within_s: float = inf
    ) -> Iterator[Json]:
        return self._host.follow(op, args, timeout_s=timeout_s, within_s=within_s)

    def close(self) -> None:
        self._host.close()

    def _refuse(self, change: str) -> NoReturn:
        raise ChangeRefused(f"{change} would change {self.name}, which is read-only here", where=self.name)
