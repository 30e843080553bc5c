"""The agent: answers one request at a time over two pipes, until the laptop closes the pipes."""

from __future__ import annotations

import base64
import contextlib
import importlib
import os
import sys
import threading
from typing import Any, Dict

from remote.payload.agent.hangup import Hangup
from remote.payload.files.atomic import make_private_folder
from remote.payload.operations import OPERATIONS
from remote.payload.request.call import Call, Connection
from remote.payload.request.refusal import Refusal, refusal_to_json
from remote.protocol.frames import BadFrame, FrameKind, hello, pack, pack_json, read_frame

# Imported by name on first use, because the import takes a fifth of an agent's start-up time, and most agents do not
# need the module.
BACKGROUND = "remote.payload.agent.background"


def main(nonce: str, temporary: str, workdir: str, first: str = "", compiled: str = "") -> int:
    """Answer requests until the connection closes. Standard output carries only frames, so prints go to stderr.

    `temporary` is the path of the payload if the payload must be removed at the end, otherwise "". `first` is the frame
    of the first request in base64, or "" if the first request arrives over the pipe. `compiled` is the path to which
    the payload's byte code is written, or "" if the byte code exists already.
    """
    connection = Connection(sys.stdin.buffer, os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    payload = os.path.abspath(sys.argv[0])
    workdir = os.path.abspath(workdir)
    pending = [compiled] if compiled else []
    lock = threading.Lock()

    def start_housekeeping() -> None:
        # The lock ensures that the hangup thread cannot end this process before the housekeeping has started.
        with lock:
            if pending:
                importlib.import_module(BACKGROUND).start_housekeeping(payload, pending.pop(), workdir)

    def leave() -> None:
        start_housekeeping()
        # Until now, modules were imported from this zip, so the zip is removed last.
        _remove(temporary)

    hangup = Hangup(sys.stdin.fileno(), leave)
    try:
        connection.write(hello(nonce) + pack_json(greeting(payload, workdir)))
        if first:
            connection.pushed_back = parse_first(base64.b64decode(first))
        while True:
            request = connection.next_request()
            with hangup.exit_allowed(not request.get("change")):
                connection.write(pack_answer(answer(request, connection, workdir, payload)))
            start_housekeeping()
    except (BrokenPipeError, EOFError):
        return 0
    finally:
        leave()


def _remove(temporary: str) -> None:
    if temporary:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def parse_first(frame: bytes) -> bytes:
    """Return the body of the JSON frame in `frame`, or b"" if `frame` is empty."""
    if not frame:
        return b""
    view = memoryview(frame)
    position = 0

    def take(size: int) -> bytes:
        nonlocal position
        position += size
        return bytes(view[position - size : position])

    return read_frame(take)[1]


def greeting(payload: str, workdir: str) -> Dict[str, Any]:
    """Return the agent's first message: its payload, workdir, Python version and pid."""
    return {"payload": payload, "workdir": workdir, "python": list(sys.version_info[:3]), "pid": os.getpid()}


def answer(request: Dict[str, Any], connection: Connection, workdir: str, payload: str) -> Dict[str, Any]:
    """Return the answer to one request. Every error becomes an answer, so that the next request can be read."""
    call = Call(request.get("op", ""), request.get("args", {}), workdir, payload, connection)
    stream = request.get("stream", "")
    result: Dict[str, Any]
    try:
        result = {"ok": True, "result": _dispatch(call, bool(request.get("change")))}
    except (BrokenPipeError, EOFError):
        raise
    except Exception as error:  # noqa: BLE001 - every error becomes an answer
        if stream == "up":
            _drain(call)
        result = {"ok": False, "error": refusal_to_json(error, workdir)}
    if stream == "down":
        connection.write(pack(FrameKind.END))
    return result


def pack_answer(value: Dict[str, Any]) -> bytes:
    """Encode an answer. An answer that is too large for a frame is replaced with an error."""
    try:
        return pack_json(value)
    except BadFrame as error:
        return pack_json({"ok": False, "error": refusal_to_json(Refusal("too-large", str(error)))})


def _dispatch(call: Call, may_change: bool) -> Dict[str, Any]:
    operation = OPERATIONS.get(call.op)
    if operation is None:
        raise Refusal("unknown-operation", f"unknown operation {call.op!r}")
    if operation.changes and not may_change:
        raise Refusal("read-only", f"{call.op} would change the host, and this request is read-only")
    if operation.changes and not os.path.isdir(call.workdir):
        make_private_folder(call.workdir)
    return operation.handler(call)


def _drain(call: Call) -> None:
    with contextlib.suppress(EOFError):
        for _ in call.chunks():
            pass
