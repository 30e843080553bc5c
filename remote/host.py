"""One interface to a machine: what may be asked of it, and what may be done to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from remote.errors import Garbled
from remote.protocol.text import first_line
from remote.protocol.values import Malformed, decode

T = TypeVar("T")
Json = dict[str, Any]


@dataclass(frozen=True)
class Completed:
    """How a command on the host ended."""

    exit: int
    stdout: bytes
    stderr: bytes

    @property
    def ok(self) -> bool:
        return self.exit == 0


@dataclass(frozen=True)
class Entry:
    """One path under a listed folder: POSIX name relative to it, size in bytes, mode bits, kind f, d, l or ?."""

    path: str
    kind: str
    size: int
    mode: int


class Host(Protocol):
    """A machine. Paths are POSIX; relative ones lie under the workdir. `probe` and `ask` promise to change nothing.

    Every call has a deadline: `timeout_s` without progress raises DeadlineExceeded. A lost line raises ConnectionLost.
    """

    @property
    def name(self) -> str: ...

    @property
    def workdir(self) -> str:
        """The absolute path of the workdir there."""
        ...

    @property
    def in_flight(self) -> int | None:
        """Bytes on their way there that have not arrived; None where that is not known, or far away. Asks nobody."""
        ...

    def probe(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed: ...

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", cwd: str | None = None, timeout_s: float = 600.0
    ) -> Completed: ...

    def read_bytes(self, path: str) -> bytes:
        """The file's bytes. Raises FileNotFoundError."""
        ...

    def write_bytes(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """The file has exactly these bytes: written beside, then renamed; parents are made."""
        ...

    def list_files(self, path: str) -> tuple[Entry, ...]: ...

    def ask(self, op: str, args: Mapping[str, Any] | None = None, *, timeout_s: float = 60.0) -> Json:
        """The answer of a payload operation that only looks."""
        ...

    def act(
        self,
        op: str,
        args: Mapping[str, Any] | None = None,
        *,
        timeout_s: float = 600.0,
        on_event: Callable[[Json], None] | None = None,
    ) -> Json:
        """The answer of a payload operation that changes something; `on_event` takes what it pushes on the way."""
        ...

    def send(self, op: str, args: Mapping[str, Any], chunks: Iterable[bytes], *, timeout_s: float = 60.0) -> Json:
        """The answer of a payload operation that takes one byte stream."""
        ...

    def fetch(
        self, op: str, args: Mapping[str, Any], sink: Callable[[bytes], None], *, timeout_s: float = 60.0
    ) -> Json:
        """The answer of a payload operation that gives one byte stream, each chunk handed to `sink`."""
        ...

    def follow(self, op: str, args: Mapping[str, Any], *, timeout_s: float = 45.0) -> Iterator[Json]:
        """What a payload operation pushes until it ends, over a channel of its own; closing the iterator ends it.

        The payload pushes an empty object at least every 10 s, so silence longer than `timeout_s` is a dead line.
        """
        ...

    def close(self) -> None: ...


def read_answer(kind: type[T], host: Host, data: Any) -> T:
    """What `host` answered, as a `kind`. Raises Garbled, fit for a terminal, where it does not have that shape."""
    try:
        return decode(kind, data)
    except Malformed as error:
        raise Garbled(
            f"{host.name} sent a malformed answer: {first_line(str(error))}",
            where=host.name,
            hint="try again; if the error persists, another program on the host interferes with our agent",
        ) from None
