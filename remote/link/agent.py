"""The Host that sends requests to an agent over a stream. It is used for local, SSH and container hosts."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any

from remote.errors import ConnectionLost, DeadlineExceeded, RemoteFault
from remote.host import Completed, Entry, Json, read_answer
from remote.link.agent_start import FIVE_TRIES, AgentStarter, Retries, garbled_error
from remote.link.answers import Accepted, read_events, read_result
from remote.link.bootstrap import MAX_FIRST_REQUEST
from remote.link.frame_reader import FrameReader
from remote.link.streams import Starter
from remote.protocol.dataclass import dataclass
from remote.protocol.frames import MAX_CHUNK, BadFrame, FrameKind, pack, pack_json
from remote.protocol.values import Verbatim

MAX_FILE_BYTES = 64 * 2**20
FIRST_OPERATIONS = frozenset({"survey", "job.wait", "follow.events", "follow.log"})
"""Operations whose arguments contain no secrets. Their request may be in the command line that starts an agent."""


@dataclass(frozen=True)
class _Listing:
    entries: tuple[tuple[Verbatim, str, int, int], ...]


class AgentHost:
    """A host that is reached through an agent. The first call connects.

    If `keep` is False, no payload is stored on the host. `python` is the path of an interpreter, absolute or under ~/,
    which is tried next if the first Python on the host's PATH cannot run the agent. `image` is the image of the
    container in which `starter` starts processes. If `trusts_owners` is True, folders above the workdir may belong to
    other users. If the connection is lost, a read-only call is retried over a new connection. A call that makes a
    change raises ConnectionLost instead, because it is unknown whether the change was made. Calls from several threads
    run one at a time, except `follow`, which uses an agent of its own.
    """

    def __init__(
        self,
        name: str,
        starter: Starter,
        *,
        workdir: str = "~/halfstep",
        keep: bool = True,
        retries: Retries = FIVE_TRIES,
        python: str = "",
        image: str = "",
        trusts_owners: bool = False,
    ) -> None:
        self._name = name
        self._starter = starter
        self._retries = retries
        self._agent_starter = AgentStarter(name, starter, workdir, keep, retries, python, image, trusts_owners)
        self._reader: FrameReader | None = None
        self._greeting: Json = {}
        self._lock = threading.RLock()

    @property
    def name(self) -> str:
        return self._name

    @property
    def workdir(self) -> str:
        return str(self._connected_greeting()["workdir"])

    @property
    def greeting(self) -> Json:
        """The first message of the agent: python, pid, payload and workdir."""
        return dict(self._connected_greeting())

    def describe(self) -> tuple[tuple[str, str], ...]:
        """Return (step, result) for each completed step of connecting, see `Starter`."""
        return self._starter.describe()

    def warnings(self) -> tuple[str, ...]:
        """Return the warnings about the connection."""
        return self._starter.warnings()

    def owners(self) -> tuple[str, ...]:
        """Return a warning for each folder above the workdir that belongs to another user."""
        return self._agent_starter.owners

    @property
    def in_flight(self) -> int | None:
        reader = self._reader
        return None if reader is None else reader.stream.in_flight

    def _connected_greeting(self) -> Json:
        self._connected()
        return self._greeting

    def _connected(self) -> FrameReader:
        with self._lock:
            if self._reader is None:
                self._reader, self._greeting = self._agent_starter.start()
            return self._reader

    def _drop(self) -> None:
        """Close a connection that is lost or has sent invalid data. The next call opens a new connection."""
        if self._reader is not None:
            self._reader.stream.close()
            self._reader = None

    def _request(self, op: str, args: Mapping[str, Any] | None, change: bool, stream: str) -> bytes:
        return pack_json({"op": op, "args": dict(args or {}), "change": change, "stream": stream})

    def _exchange(self, conversation: Callable[[FrameReader], Json], *, change: bool, what: str) -> Json:
        """Return the result of `conversation`, which sends one request and reads its answer.

        If the connection fails, it is closed, and the next call opens a new connection.
        """
        with self._lock:
            return self._locked_exchange(conversation, change, what)

    def _locked_exchange(self, conversation: Callable[[FrameReader], Json], change: bool, what: str) -> Json:
        reader = self._connected()
        try:
            return conversation(reader)
        except RemoteFault:
            raise
        except ConnectionLost as lost:
            self._drop()
            self._starter.close()
            if not change:
                raise
            raise ConnectionLost(
                f"{lost.message} during `{what}`: whether it completed is unknown",
                where=self._name,
                hint="run the same command again: it continues with what is not done",
            ) from None
        except BadFrame as error:
            self._drop()
            raise garbled_error(self._name, error) from None
        except BaseException:
            self._drop()
            raise

    def ask(self, op: str, args: Mapping[str, Any] | None = None, *, timeout_s: float = 60.0) -> Json:
        request = self._request(op, args, False, "")

        def answer(reader: FrameReader) -> Json:
            return read_result(reader, timeout_s)

        def conversation(reader: FrameReader) -> Json:
            reader.stream.write(request, timeout_s)
            return answer(reader)

        waits = self._retries.waits()
        while True:
            try:
                with self._lock:
                    first = b""
                    if self._reader is None:
                        first = _first_request(op, request)
                        self._reader, self._greeting = self._agent_starter.start(first, waits)
                    return self._exchange(answer if first else conversation, change=False, what=op)
            except ConnectionLost:
                wait = next(waits, None)
                if wait is None:
                    raise
                time.sleep(wait)

    def act(
        self,
        op: str,
        args: Mapping[str, Any] | None = None,
        *,
        timeout_s: float = 600.0,
        on_event: Callable[[Json], None] | None = None,
    ) -> Json:
        def conversation(reader: FrameReader) -> Json:
            reader.stream.write(self._request(op, args, True, ""), timeout_s)
            return read_result(reader, timeout_s, Accepted(events=True, on_event=on_event))

        return self._exchange(conversation, change=True, what=op)

    def send(self, op: str, args: Mapping[str, Any], chunks: Iterable[bytes], *, timeout_s: float = 60.0) -> Json:
        def conversation(reader: FrameReader) -> Json:
            reader.stream.write(self._request(op, args, True, "up"), timeout_s)
            for chunk in chunks:
                for start in range(0, len(chunk), MAX_CHUNK):
                    reader.stream.write(pack(FrameKind.BYTES, chunk[start : start + MAX_CHUNK]), timeout_s)
            reader.stream.write(pack(FrameKind.END), timeout_s)
            return read_result(reader, timeout_s, Accepted(events=True))

        return self._exchange(conversation, change=True, what=op)

    def fetch(
        self,
        op: str,
        args: Mapping[str, Any],
        sink: Callable[[bytes], None],
        *,
        limit: int,
        timeout_s: float = 60.0,
    ) -> Json:
        def conversation(reader: FrameReader) -> Json:
            reader.stream.write(self._request(op, args, False, "down"), timeout_s)
            return read_result(reader, timeout_s, Accepted(sink, limit))

        return self._exchange(conversation, change=False, what=op)

    def follow(
        self, op: str, args: Mapping[str, Any], *, timeout_s: float = 45.0, within_s: float = inf
    ) -> Iterator[Json]:
        request = self._request(op, args, False, "")
        first = _first_request(op, request)
        reader, _ = self._agent_starter.start(first)
        try:
            if not first:
                reader.stream.write(request, timeout_s)
            yield from read_events(reader, timeout_s, within_s)
        except BadFrame as error:
            raise garbled_error(self._name, error) from None
        finally:
            reader.stream.close()

    def _command(self, op: str, argv: Sequence[str], args: Json, change: bool, timeout_s: float) -> Completed:
        request = {"argv": list(argv), "timeout_s": timeout_s, **args}
        call = self.act if change else self.ask
        return read_answer(Completed, self, call(op, request, timeout_s=timeout_s + 15.0))

    def probe(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0) -> Completed:
        return self._command("command.probe", argv, {"stdin": base64.b64encode(stdin).decode()}, False, timeout_s)

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", cwd: str | None = None, timeout_s: float = 600.0
    ) -> Completed:
        args = {"stdin": base64.b64encode(stdin).decode(), "cwd": cwd}
        return self._command("command.run", argv, args, True, timeout_s)

    def read_bytes(self, path: str) -> bytes:
        data = bytearray()
        try:
            self.fetch("file.read", {"path": path}, data.extend, limit=MAX_FILE_BYTES)
        except RemoteFault as fault:
            if fault.kind == "not-found":
                raise FileNotFoundError(path) from None
            raise
        return bytes(data)

    def write_bytes(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self.send("file.write", {"path": path, "mode": mode}, [data])

    def list_files(self, path: str) -> tuple[Entry, ...]:
        listing = read_answer(_Listing, self, self.ask("file.list", {"path": path}))
        return tuple(Entry(name, kind, size, mode) for name, kind, size, mode in listing.entries)

    def close(self) -> None:
        """Close the connection. The next call opens a new connection."""
        with suppress(ConnectionLost, DeadlineExceeded):
            self._drop()
        self._starter.close()


def _first_request(op: str, request: bytes) -> bytes:
    """Return the request if the command line that starts an agent may contain it, else b"".

    Every user of the host can read a command line.
    """
    return request if op in FIRST_OPERATIONS and len(request) <= MAX_FIRST_REQUEST else b""
