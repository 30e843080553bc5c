"""The interface of a host: operations that only read, and operations that may change it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Protocol, TypeVar

from remote.errors import Garbled
from remote.protocol.dataclass import dataclass
from remote.protocol.frames import BadFrame, parse_value
from remote.protocol.hidden import message_line, without_hidden
from remote.protocol.text import first_line
from remote.protocol.values import Malformed, Signed, decode

T = TypeVar("T")
Json = dict[str, Any]


@dataclass(frozen=True)
class Completed:
    """The result of a command on the host. `exit` is negative if a signal ended the command."""

    exit: Signed
    stdout: bytes
    stderr: bytes

    @property
    def ok(self) -> bool:
        return self.exit == 0


@dataclass(frozen=True)
class Entry:
    """One path under a listed folder: relative POSIX path, size in bytes, mode bits, kind (f, d, l or ?)."""

    path: str
    kind: str
    size: int
    mode: int


class Host(Protocol):
    """A machine. Paths are POSIX paths; relative paths are under the workdir. `probe` and `ask` must change nothing.

    Every call raises DeadlineExceeded if it makes no progress for `timeout_s`, and ConnectionLost if the connection is
    lost.
    """

    @property
    def name(self) -> str: ...

    @property
    def workdir(self) -> str:
        """The absolute path of the workdir on the host."""
        ...

    @property
    def in_flight(self) -> int | None:
        """The bytes that were written to the connection and have not arrived, or None if unknown. Causes no traffic."""
        ...

    def probe(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed: ...

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", cwd: str | None = None, timeout_s: float = 600.0
    ) -> Completed: ...

    def read_bytes(self, path: str) -> bytes:
        """Read a file. Raises FileNotFoundError."""
        ...

    def write_bytes(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file atomically and create its parent folders."""
        ...

    def list_files(self, path: str) -> tuple[Entry, ...]: ...

    def ask(self, op: str, args: Mapping[str, Any] | None = None, *, timeout_s: float = 60.0) -> Json:
        """Call a payload operation that changes nothing, and return its answer."""
        ...

    def act(
        self,
        op: str,
        args: Mapping[str, Any] | None = None,
        *,
        timeout_s: float = 600.0,
        on_event: Callable[[Json], None] | None = None,
    ) -> Json:
        """Call a payload operation that may change the host, and return its answer.

        `on_event` is called for each event.
        """
        ...

    def send(self, op: str, args: Mapping[str, Any], chunks: Iterable[bytes], *, timeout_s: float = 60.0) -> Json:
        """Call a payload operation with a byte stream as input, and return its answer."""
        ...

    def fetch(
        self,
        op: str,
        args: Mapping[str, Any],
        sink: Callable[[bytes], None],
        *,
        limit: int,
        timeout_s: float = 60.0,
    ) -> Json:
        """Call a payload operation that returns a byte stream; each chunk is passed to `sink`.

        Raises Garbled if the stream has more than `limit` bytes.
        """
        ...

    def follow(
        self, op: str, args: Mapping[str, Any], *, timeout_s: float = 45.0, within_s: float = inf
    ) -> Iterator[Json]:
        """Yield the events of a payload operation until the operation ends. Closing the iterator ends it early.

        The events arrive on a separate channel. The payload sends an empty event at least every 10 s, so silence for
        `timeout_s` means a dead connection. Raises DeadlineExceeded if the operation takes longer than `within_s` in
        total. There is no limit by default, since a job may run for days.
        """
        ...

    def close(self) -> None: ...


def read_answer(kind: type[T], host: Host, data: Any) -> T:
    """Decode the host's answer as `decode_answer` does. Raises Garbled if the answer is malformed."""
    try:
        return decode_answer(kind, data)
    except Malformed as error:
        raise garbled(host.name, f"a malformed answer: {error}") from None


def decode_answer(kind: type[T], data: Any) -> T:
    """Decode data that a host sent as an instance of `kind`. Raises Malformed if the data has another structure.

    Hidden values, line breaks and control characters of texts are replaced, except in fields with another rule
    (`Identifier`, `Verbatim`, ...). Integers must not be negative, except in fields with the annotation `Signed`.
    """
    return decode(kind, data, text_rule=message_line, signed=False)


def read_json_answer(kind: type[T], host: Host, path: str) -> T:
    """Read a JSON file of the host as an instance of `kind`. Raises Garbled, FileNotFoundError."""
    try:
        value = parse_value(host.read_bytes(path))
    except BadFrame as error:
        raise garbled(host.name, f"a malformed {path.rpartition('/')[2]}: {error}") from None
    return read_answer(kind, host, value)


def read_field(kind: type[T], host: Host, data: Json, name: str) -> T:
    """Decode one field of the host's answer as an instance of `kind`.

    Raises Garbled if the field is missing or has another type.
    """
    if name not in data:
        raise garbled(host.name, f"an answer without {name}")
    return read_answer(kind, host, data[name])


def garbled(name: str, what: str) -> Garbled:
    """Return the error for unexpected data from the host `name`. Hidden values and control characters are replaced."""
    return Garbled(
        f"{name} sent {first_line(without_hidden(what))}",
        where=name,
        hint="try again; if the error persists, another program on the host interferes with the agent",
    )
