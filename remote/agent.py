"""A Host that is an agent on the other end of a wire: the one implementation behind local and SSH hosts."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from remote.bundle import payload_bundle
from remote.errors import ConnectionLost, HostUnfit, RemoteFault
from remote.host import Completed, Entry, Json
from remote.protocol.exits import ExitCode
from remote.protocol.frames import MAX_CHUNK, BadFrame, FrameKind, hello, pack, pack_json, parse_json, read_frame
from remote.wire import Wire

MAX_NOISE = 4 * 2**20
CONNECT_TIMEOUT_S = 30.0

OpenWire = Callable[[str, str, bool], Wire]
"""Starts the bootstrap for (nonce, payload sha256, keep) and gives the wire to it."""


class Line:
    """The laptop's end of the frames."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._buffer = bytearray()

    def read_exactly(self, size: int, timeout_s: float) -> bytes:
        while len(self._buffer) < size:
            self._buffer.extend(self.wire.read_some(MAX_CHUNK, timeout_s))
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def read_line(self, timeout_s: float) -> bytes:
        while (end := self._buffer.find(b"\n")) < 0:
            self._buffer.extend(self.wire.read_some(4096, timeout_s))
        return self.read_exactly(end + 1, timeout_s)

    def read_frame(self, timeout_s: float) -> tuple[FrameKind, bytes]:
        return read_frame(lambda size: self.read_exactly(size, timeout_s))

    def skip_noise(self, mark: bytes, timeout_s: float) -> None:
        """Forget everything up to and with `mark`: banners, what a .bashrc prints."""
        while (at := self._buffer.find(mark)) < 0:
            if len(self._buffer) > MAX_NOISE:
                raise HostUnfit(f"the login shell printed more than {MAX_NOISE} bytes before our agent could answer")
            self._buffer.extend(self.wire.read_some(MAX_CHUNK, timeout_s))
        del self._buffer[: at + len(mark)]

    def starts_frame(self, timeout_s: float) -> bool:
        if not self._buffer:
            self._buffer.extend(self.wire.read_some(MAX_CHUNK, timeout_s))
        return self._buffer[:1] == FrameKind.JSON.value


class AgentHost:
    """A machine behind an agent. `keep` False leaves no payload behind (verbs that only look)."""

    def __init__(self, name: str, open_wire: OpenWire, *, keep: bool = True) -> None:
        self._name = name
        self._open_wire = open_wire
        self._keep = keep
        self._line: Line | None = None
        self._workdir = ""

    @property
    def name(self) -> str:
        return self._name

    @property
    def workdir(self) -> str:
        self._connected()
        return self._workdir

    def _connected(self) -> Line:
        if self._line is None:
            self._line, greeting = self._greet()
            self._workdir = str(greeting["workdir"])
        return self._line

    def _greet(self) -> tuple[Line, Json]:
        nonce = secrets.token_hex(8)
        bundle = payload_bundle()
        line = Line(self._open_wire(nonce, bundle.sha256, self._keep))
        mark = hello(nonce)
        try:
            line.skip_noise(mark, CONNECT_TIMEOUT_S)
            while not line.starts_frame(CONNECT_TIMEOUT_S):
                word = line.read_line(CONNECT_TIMEOUT_S).decode("utf-8", "replace").strip()
                if word != "NEED":
                    raise _bootstrap_failed(word, self._name)
                line.wire.write(len(bundle.data).to_bytes(8, "big") + bundle.data, CONNECT_TIMEOUT_S)
                line.skip_noise(mark, CONNECT_TIMEOUT_S)
            _, body = line.read_frame(CONNECT_TIMEOUT_S)
        except ConnectionLost:
            words = line.wire.last_words().strip()
            if words:
                raise HostUnfit(
                    f"our agent did not start on {self._name}: {words.splitlines()[-1]}", where=self._name
                ) from None
            raise
        return line, parse_json(body)

    def _request(self, line: Line, op: str, args: Mapping[str, Any] | None, change: bool, stream: str) -> bytes:
        return pack_json({"op": op, "args": dict(args or {}), "change": change, "stream": stream})

    def _answer(self, line: Line, timeout_s: float, sink: Callable[[bytes], None] | None = None) -> Json:
        while True:
            kind, body = line.read_frame(timeout_s)
            if kind is FrameKind.BYTES and sink is not None:
                sink(body)
            elif kind is FrameKind.JSON:
                answer = parse_json(body)
                if "event" not in answer:
                    return _result(answer)
            elif kind is not FrameKind.END:
                raise BadFrame(f"an unexpected {kind.name} frame")

    def _call(self, op: str, args: Mapping[str, Any] | None, *, change: bool, timeout_s: float) -> Json:
        line = self._connected()
        line.wire.write(self._request(line, op, args, change, ""), timeout_s)
        return self._answer(line, timeout_s)

    def ask(self, op: str, args: Mapping[str, Any] | None = None, *, timeout_s: float = 60.0) -> Json:
        return self._call(op, args, change=False, timeout_s=timeout_s)

    def act(self, op: str, args: Mapping[str, Any] | None = None, *, timeout_s: float = 600.0) -> Json:
        return self._call(op, args, change=True, timeout_s=timeout_s)

    def send(self, op: str, args: Mapping[str, Any], chunks: Iterable[bytes], *, timeout_s: float = 60.0) -> Json:
        line = self._connected()
        line.wire.write(self._request(line, op, args, True, "up"), timeout_s)
        for chunk in chunks:
            for start in range(0, len(chunk), MAX_CHUNK):
                line.wire.write(pack(FrameKind.BYTES, chunk[start : start + MAX_CHUNK]), timeout_s)
        line.wire.write(pack(FrameKind.END), timeout_s)
        return self._answer(line, timeout_s)

    def fetch(
        self, op: str, args: Mapping[str, Any], sink: Callable[[bytes], None], *, timeout_s: float = 60.0
    ) -> Json:
        line = self._connected()
        line.wire.write(self._request(line, op, args, False, "down"), timeout_s)
        return self._answer(line, timeout_s, sink)

    def follow(self, op: str, args: Mapping[str, Any], *, timeout_s: float = 45.0) -> Iterator[Json]:
        line, _ = self._greet()
        try:
            line.wire.write(self._request(line, op, args, False, ""), timeout_s)
            while True:
                _, body = line.read_frame(timeout_s)
                answer = parse_json(body)
                if "event" not in answer:
                    _result(answer)
                    return
                if answer["event"]:
                    yield answer["event"]
        finally:
            line.wire.close()

    def _command(self, op: str, argv: Sequence[str], args: Json, change: bool, timeout_s: float) -> Completed:
        request = {"argv": list(argv), "timeout_s": timeout_s, **args}
        answer = self._call(op, request, change=change, timeout_s=timeout_s + 15.0)
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
        if self._line is not None:
            self._line.wire.close()
            self._line = None


def _result(answer: Json) -> Json:
    if answer.get("ok"):
        result = answer.get("result")
        return result if isinstance(result, dict) else {}
    error = answer.get("error", {})
    raise RemoteFault(
        str(error.get("message", "no reason given")),
        kind=str(error.get("kind", "bug")),
        where=str(error.get("where", "")),
        hint=str(error.get("hint", "")),
        exit_code=ExitCode(error.get("exit_code", ExitCode.BUG)),
    )


def _bootstrap_failed(word: str, name: str) -> HostUnfit:
    kind, _, rest = word.partition(" ")
    if kind == "OLD":
        return HostUnfit(f"{name} has Python {rest}; halfstep needs 3.9 or newer there", where=name)
    if kind == "DISK":
        return HostUnfit(f"the payload could not be stored on {name}: {rest}", where=name, exit_code=ExitCode.DISK)
    return HostUnfit(f"our agent did not start on {name}: {word}", where=name, exit_code=ExitCode.TEMPORARY)
