"""The long-lived answerer: one request after another over two pipes, until the laptop closes them."""

from __future__ import annotations

import base64
import contextlib
import importlib
import os
import sys
import threading
from typing import Any, Dict

from remote.payload.agent.hangup import Hangup
from remote.payload.operations import OPERATIONS
from remote.payload.request.call import Call, Connection
from remote.payload.request.refusal import Refusal, refusal_to_json
from remote.protocol.frames import FrameKind, hello, pack, pack_json, read_frame

# By name: needed once per host and payload, and it would cost every start a fifth of its time.
SETTLING = "remote.payload.agent.settling"


def main(nonce: str, temporary: str, workdir: str, first: str = "", compiled: str = "") -> int:
    """Answers until the line closes. Standard output belongs to the frames: anything printed goes to stderr.

    `temporary` is the payload's own path where it must not outlive us (a verb that only looks), else empty.
    `first` is a request's frame in base64, answered before any that comes over the line. `compiled` is where the
    payload's byte code is missing, else empty.
    """
    line = Connection(sys.stdin.buffer, os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    payload = os.path.abspath(sys.argv[0])
    workdir = os.path.abspath(workdir)
    pending = [compiled] if compiled else []
    settling = threading.Lock()

    def settle() -> None:
        # Under a lock: whoever comes second ends this process, and the first must have started it by then.
        with settling:
            if pending:
                importlib.import_module(SETTLING).settle_behind(payload, pending.pop(), workdir)

    def leave() -> None:
        settle()
        # Open files keep their bytes: the modules of this zip are found through the name, so it goes at the end.
        _forget(temporary)

    hangup = Hangup(sys.stdin.fileno(), leave)
    try:
        line.write(hello(nonce) + pack_json(greeting(payload, workdir)))
        if first:
            line.pushed_back = parse_first(base64.b64decode(first))
        while True:
            request = line.next_request()
            with hangup.ends(not request.get("change")):
                line.write(pack_json(answer(request, line, workdir, payload)))
            settle()
    except (BrokenPipeError, EOFError):
        return 0
    finally:
        leave()


def _forget(temporary: str) -> None:
    if temporary:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def parse_first(frame: bytes) -> bytes:
    """The body of the one JSON frame in `frame`; empty where there is none."""
    if not frame:
        return b""
    view = memoryview(frame)
    taken = 0

    def take(size: int) -> bytes:
        nonlocal taken
        taken += size
        return bytes(view[taken - size : taken])

    return read_frame(take)[1]


def greeting(payload: str, workdir: str) -> Dict[str, Any]:
    """Who answers."""
    return {"payload": payload, "workdir": workdir, "python": list(sys.version_info[:3]), "pid": os.getpid()}


def answer(request: Dict[str, Any], line: Connection, workdir: str, payload: str) -> Dict[str, Any]:
    """The closing object of one request; an error of any kind is an answer too, so that the line stays in step."""
    call = Call(request.get("op", ""), request.get("args", {}), workdir, payload, line)
    stream = request.get("stream", "")
    result: Dict[str, Any]
    try:
        result = {"ok": True, "result": _dispatch(call, bool(request.get("change")))}
    except (BrokenPipeError, EOFError):
        raise
    except Exception as error:  # noqa: BLE001 - the seam: every error becomes words on the wire
        if stream == "up":
            _drain(call)
        result = {"ok": False, "error": refusal_to_json(error, workdir)}
    if stream == "down":
        line.write(pack(FrameKind.END))
    return result


def _dispatch(call: Call, may_change: bool) -> Dict[str, Any]:
    operation = OPERATIONS.get(call.op)
    if operation is None:
        raise Refusal("unknown-operation", f"this payload knows no operation {call.op!r}")
    if operation.changes and not may_change:
        raise Refusal("read-only", f"{call.op} changes the host and was asked to only look")
    if operation.changes and not os.path.isdir(call.workdir):
        make_private(call.workdir)
    return operation.handler(call)


def make_private(folder: str) -> None:
    """The folder is there; it and the parents that were missing are its owner's alone, whatever the umask."""
    before = os.umask(0o077)
    try:
        os.makedirs(folder, exist_ok=True)
    finally:
        os.umask(before)


def _drain(call: Call) -> None:
    with contextlib.suppress(EOFError):
        for _ in call.chunks():
            pass
