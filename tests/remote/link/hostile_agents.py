"""Hosts that send invalid answers. Run as a program, it is one such host, or measures the memory of a call to one.

python -P -m tests.remote.link.hostile_agents host NAME NONCE    sends the answers of that host to stdout
python -P -m tests.remote.link.hostile_agents call NAME CALL     prints how the call ends, and its memory in MiB
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from pathlib import Path

from remote.errors import HalfstepError
from remote.host import read_answer
from remote.link.agent import AgentHost
from remote.link.agent_start import Retries
from remote.link.streams import LocalProcessStream, LocalStarter, ProcessStream
from remote.project.scan import Scan
from remote.protocol.findings import Report
from remote.protocol.frames import MAX_CHUNK, MAX_JSON, FrameKind, hello, pack, pack_json
from remote.protocol.survey import Survey
from remote.protocol.tree import Manifest
from remote.sync.agreed import MAX_MANIFEST, fetch_host_manifest

ROOT = Path(__file__).parents[3]
GREETING = pack_json({"workdir": "/w", "payload": "/p", "python": [3, 11, 0], "pid": 1})
Chunks = Callable[[], Iterator[bytes]]


class Hostile(LocalStarter):
    """Starts processes that send the answers of the named host, regardless of what is written to them."""

    def __init__(self, name: str) -> None:
        self._name = name

    def start(self, argv: Sequence[str]) -> ProcessStream:
        nonce = argv[min(5, len(argv) - 1)]
        program = (sys.executable, "-P", "-m", "tests.remote.link.hostile_agents", "host", self._name, nonce)
        return LocalProcessStream(program, environment={**os.environ, "PYTHONPATH": str(ROOT)})


def hostile_host(name: str) -> AgentHost:
    return AgentHost("titan", Hostile(name), retries=Retries(tries=1))


def _answer(start: str, piece: str, end: str) -> Chunks:
    """Return an answer of the largest accepted size: `start`, as many copies of `piece` as fit, and `end`."""

    def chunks() -> Iterator[bytes]:
        text = _filled(start, piece, end, MAX_JSON - 100)
        yield pack(FrameKind.JSON, b'{"ok": true, "result": ' + text + b"}")

    return chunks


def _manifest(start: str, piece: str = "", end: str = "", size: int = 0) -> Chunks:
    """Return a compressed manifest, and the answer after it."""

    def chunks() -> Iterator[bytes]:
        data = zlib.compress(_filled(start, piece, end, size), 1)
        for at in range(0, len(data), MAX_CHUNK):
            yield pack(FrameKind.BYTES, data[at : at + MAX_CHUNK])
        yield pack(FrameKind.END) + pack_json({"ok": True, "result": {}})

    return chunks


def _filled(start: str, piece: str, end: str, size: int) -> bytes:
    first, middle, last = (text.encode() for text in (start, piece, end))
    return first + middle * ((size - len(first) - len(last)) // max(1, len(middle))) + last


def _endless(one: bytes) -> Chunks:
    return lambda: repeat(one)


ENDLESS = {
    "endless heartbeats": pack_json({"event": {}}),
    "endless events": pack_json({"event": {"step": 1}}),
    "endless ends of streams": pack(FrameKind.END),
    "endless empty pieces": pack(FrameKind.BYTES),
    "endless pieces": pack(FrameKind.BYTES, bytes(MAX_CHUNK)),
}
SURVEYS = {
    "lists": _answer("[", "[],", "[]]"),
    "objects": _answer("[", "{},", "{}]"),
    "deep lists": _answer("", "[", "]"),
    "deep objects": _answer("", '{"":', "1"),
    "numbers": _answer("[", "1.5,", "1]"),
    "texts": _answer("[", '"a\u4e2d",', '""]'),
    "a long text": _answer('{"tree": "', "a", '\U0001f600"}'),
    "escaped surrogates": _answer('{"tree": "', "\\ud83d\\ude00", '"}'),
}
MANIFESTS = {
    "zeros": _manifest("", "\0", "", 2**27),
    "many rows": _manifest('{"version": 1, "rows": {', '"a": [],', '"a": []}}', MAX_MANIFEST),
    "a long name": _manifest('{"version": 1, "rows": {"', "a", '\U0001f600": []}}', MAX_MANIFEST - 10),
    "no rows": _manifest('{"version": 1, "staged": {}}'),
    "other rows": _manifest(json.dumps({"version": 1, "rows": {"a": [1, 2, 3]}, "staged": {}})),
    "staged texts": _manifest(json.dumps({"version": 1, "rows": {}, "staged": {"a": "b"}})),
    "a list": _manifest("[]"),
}
HOSTS = {**{name: _endless(one) for name, one in ENDLESS.items()}, **SURVEYS, **MANIFESTS}


def ask_survey(host: AgentHost) -> object:
    return read_answer(Survey, host, host.ask("survey", {}))


def ask_manifest(host: AgentHost) -> object:
    return fetch_host_manifest(host, Scan(Path("/nowhere"), "key", "me", Manifest({}), Report()))


def send(name: str, nonce: str) -> None:
    sys.stdout.buffer.write(hello(nonce) + GREETING)
    for chunk in HOSTS[name]():
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
    sys.stdin.buffer.read()  # A host that has ended would break the pipe of a call that is not written yet.


def peak_kib() -> int:
    """Return the peak memory of this program. getrusage would also count the process that started it."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))


def measure(name: str, call: str) -> None:
    try:
        {"survey": ask_survey, "manifest": ask_manifest}[call](hostile_host(name))
    except HalfstepError as error:
        print(type(error).__name__, error.message)
    print(peak_kib() // 1024)


if __name__ == "__main__":
    {"host": send, "call": measure}[sys.argv[1]](*sys.argv[2:])
