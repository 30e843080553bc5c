"""A Host that is an agent on the other end of a wire: the one implementation behind local, SSH and container hosts."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from remote.errors import ConnectionLost, DeadlineExceeded, RemoteFault
from remote.host import Completed, Entry, Json
from remote.link.bootstrap import MAX_FIRST
from remote.link.greeting import FIVE_TRIES, Greeter, Retries, not_ours
from remote.link.line import Line
from remote.link.wire import Starter
from remote.protocol.exits import ExitCode
from remote.protocol.frames import MAX_CHUNK, BadFrame, FrameKind, pack, pack_json, parse_json
from remote.protocol.text import safe_text


class AgentHost:
    """A machine behind an agent; the way to it is opened by the first call. `keep` False leaves no payload behind.

    `python` is an interpreter, absolute or under ~/, that may run the agent where no usual one can.
    A call that only looks is asked again, over a new line, when the line is lost. One that changes something is not:
    it raises ConnectionLost, and its outcome is unknown until the host is looked at again. Threads take turns;
    following goes beside everything else.
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
    ) -> None:
        self._name = name
        self._starter = starter
        self.other_python = python
        self._retries = retries
        self._greeter = Greeter(name, starter, workdir, keep, retries, python)
        self._line: Line | None = None
        self._greeting: Json = {}
        self._lock = threading.RLock()

    @property
    def name(self) -> str:
        return self._name

    @property
    def workdir(self) -> str:
        return str(self._greeted()["workdir"])

    @property
    def greeting(self) -> Json:
        """Who answers there: the agent's python, pid, payload and workdir."""
        return dict(self._greeted())

    def describe(self) -> tuple[tuple[str, str], ...]:
        """The way to it, step by step; see Starter."""
        return self._starter.describe()

    def warnings(self) -> tuple[str, ...]:
        """What was not in order on the way, and did not stop anything."""
        return self._starter.warnings()

    @property
    def in_flight(self) -> int | None:
        line = self._line
        return None if line is None else line.wire.in_flight

    def _greeted(self) -> Json:
        self._connected()
        return self._greeting

    def _connected(self) -> Line:
        with self._lock:
            if self._line is None:
                self._line, self._greeting = self._greeter.greet()
            return self._line

    def _drop(self) -> None:
        """The line is out of step or dead; the next call opens another."""
        if self._line is not None:
            self._line.wire.close()
            self._line = None

    def _request(self, op: str, args: Mapping[str, Any] | None, change: bool, stream: str) -> bytes:
        return pack_json({"op": op, "args": dict(args or {}), "change": change, "stream": stream})

    def _answer(
        self,
        line: Line,
        timeout_s: float,
        sink: Callable[[bytes], None] | None = None,
        on_event: Callable[[Json], None] | None = None,
    ) -> Json:
        while True:
            kind, body = line.read_frame(timeout_s)
            if kind is FrameKind.BYTES and sink is not None:
                sink(body)
            elif kind is FrameKind.JSON:
                answer = parse_json(body)
                if "event" not in answer:
                    return _result(answer)
                if on_event is not None and isinstance(answer["event"], dict) and answer["event"]:
                    on_event(answer["event"])
            elif kind is not FrameKind.END:
                raise BadFrame(f"an unexpected {kind.name} frame")

    def _exchange(self, talk: Callable[[Line], Json], *, change: bool, what: str) -> Json:
        """What `talk` brings home. A fault of the line's drops it, so that the next call starts afresh."""
        with self._lock:
            return self._talk(talk, change, what)

    def _talk(self, talk: Callable[[Line], Json], change: bool, what: str) -> Json:
        line = self._connected()
        try:
            return talk(line)
        except RemoteFault:
            raise
        except ConnectionLost as lost:
            self._drop()
            self._starter.close()
            if not change:
                raise
            raise ConnectionLost(
                f"{lost.message} while `{what}` was at work there: whether it was done is unknown",
                where=self._name,
                hint="run the same command again: it looks first, and does only what is left",
            ) from None
        except BadFrame as error:
            self._drop()
            raise not_ours(self._name, error) from None
        except BaseException:
            self._drop()
            raise

    def ask(self, op: str, args: Mapping[str, Any] | None = None, *, timeout_s: float = 60.0) -> Json:
        request = self._request(op, args, False, "")

        def talk(line: Line) -> Json:
            line.wire.write(request, timeout_s)
            return self._answer(line, timeout_s)

        waits = self._retries.waits()
        while True:
            try:
                with self._lock:
                    if self._line is None and len(request) <= MAX_FIRST:
                        self._line, self._greeting = self._greeter.greet(request)
                        return self._exchange(lambda line: self._answer(line, timeout_s), change=False, what=op)
                    return self._exchange(talk, change=False, what=op)
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
        def talk(line: Line) -> Json:
            line.wire.write(self._request(op, args, True, ""), timeout_s)
            return self._answer(line, timeout_s, on_event=on_event)

        return self._exchange(talk, change=True, what=op)

    def send(self, op: str, args: Mapping[str, Any], chunks: Iterable[bytes], *, timeout_s: float = 60.0) -> Json:
        def talk(line: Line) -> Json:
            line.wire.write(self._request(op, args, True, "up"), timeout_s)
            for chunk in chunks:
                for start in range(0, len(chunk), MAX_CHUNK):
                    line.wire.write(pack(FrameKind.BYTES, chunk[start : start + MAX_CHUNK]), timeout_s)
            line.wire.write(pack(FrameKind.END), timeout_s)
            return self._answer(line, timeout_s)

        return self._exchange(talk, change=True, what=op)

    def fetch(
        self, op: str, args: Mapping[str, Any], sink: Callable[[bytes], None], *, timeout_s: float = 60.0
    ) -> Json:
        def talk(line: Line) -> Json:
            line.wire.write(self._request(op, args, False, "down"), timeout_s)
            return self._answer(line, timeout_s, sink)

        return self._exchange(talk, change=False, what=op)

    def follow(self, op: str, args: Mapping[str, Any], *, timeout_s: float = 45.0) -> Iterator[Json]:
        request = self._request(op, args, False, "")
        line, _ = self._greeter.greet(request if len(request) <= MAX_FIRST else b"")
        try:
            if len(request) > MAX_FIRST:
                line.wire.write(request, timeout_s)
            while True:
                _, body = line.read_frame(timeout_s)
                answer = parse_json(body)
                if "event" not in answer:
                    _result(answer)
                    return
                if answer["event"]:
                    yield answer["event"]
        except BadFrame as error:
            raise not_ours(self._name, error) from None
        finally:
            line.wire.close()

    def _command(self, op: str, argv: Sequence[str], args: Json, change: bool, timeout_s: float) -> Completed:
        request = {"argv": list(argv), "timeout_s": timeout_s, **args}
        call = self.act if change else self.ask
        answer = call(op, request, timeout_s=timeout_s + 15.0)
        return Completed(answer["exit"], base64.b64decode(answer["stdout"]), base64.b64decode(answer["stderr"]))

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
            self.fetch("file.read", {"path": path}, data.extend)
        except RemoteFault as fault:
            if fault.kind == "not-found":
                raise FileNotFoundError(path) from None
            raise
        return bytes(data)

    def write_bytes(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self.send("file.write", {"path": path, "mode": mode}, [data])

    def list_files(self, path: str) -> tuple[Entry, ...]:
        rows = self.ask("file.list", {"path": path})["entries"]
        return tuple(Entry(name, kind, size, mode) for name, kind, size, mode in rows)

    def close(self) -> None:
        """The line, and the way it went over, are closed; another call would open them again."""
        with suppress(ConnectionLost, DeadlineExceeded):
            self._drop()
        self._starter.close()


def _result(answer: Json) -> Json:
    if answer.get("ok") is True:
        result = answer.get("result")
        return result if isinstance(result, dict) else {}
    error = answer.get("error")
    if not isinstance(error, dict):
        raise BadFrame("an answer that is neither a result nor an error")
    raise RemoteFault(
        safe_text(str(error.get("message", "no reason given"))),
        kind=str(error.get("kind", "bug")),
        where=safe_text(str(error.get("where", ""))),
        hint=safe_text(str(error.get("hint", ""))),
        exit_code=_exit_code(error.get("exit_code")),
    )


def _exit_code(code: object) -> ExitCode:
    """The published code of an error; any other value, 0 among them, is a defect of whoever sent it."""
    if isinstance(code, int) and code in set(ExitCode) - {ExitCode.OK}:
        return ExitCode(code)
    return ExitCode.BUG
