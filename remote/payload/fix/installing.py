"""Run pip and similar commands. The progress of a command is pushed to the laptop.

A command ends if the laptop disconnects.
"""

from __future__ import annotations

import collections
import contextlib
import os
import select
import signal
import subprocess
from typing import Any, Deque, Dict, List, Optional, Sequence

from remote.payload.fix.pip_failure import explain_failure
from remote.payload.fix.pip_output import PipOutput
from remote.payload.request.call import Call
from remote.payload.request.refusal import DISK_ERRORS, Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.shell import on_host

POLL_S = 0.5
ENDING_S = 10.0
KEPT_LINES = 400
PIP = ("-m", "pip", "--no-input", "--disable-pip-version-check")
CUT = "marshal data too short"
"""The message of Python for truncated byte code. On a full disk, Python before 3.12.8 truncates byte code silently."""
FULL = {"No space left on device": 28, "Disk quota exceeded": 122, CUT: 28}


def run_command(
    call: Call,
    argv: List[str],
    environment: Dict[str, str],
    failure: str,
    *,
    cwd: Optional[str] = None,
    keep: Sequence[int] = (),
    pip: Optional[PipOutput] = None,
) -> str:
    """Run the command and return its last 400 lines of output.

    Raises Refusal with the last lines of output if the command fails. If the laptop disconnects, ends the command and
    its children, then raises EOFError. The command inherits the descriptors `keep`, and so holds their locks while it
    runs. `pip` turns the output of a `pip install` into events.
    """
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=cwd,
            pass_fds=tuple(keep),
            start_new_session=True,
        )
    except OSError as error:
        raise refused("no-python", f"{failure}: {argv[0]}: {error.strerror}", argv[0]) from None
    lines: Deque[str] = collections.deque(maxlen=KEPT_LINES)
    try:
        _follow(call, process, lines, pip)
        process.wait()
    finally:
        _end(process)
    text = "\n".join(lines)
    if process.returncode != 0:
        raise _failed(failure, text, argv[0])
    return text


def _follow(call: Call, process: subprocess.Popen[bytes], lines: Deque[str], pip: Optional[PipOutput]) -> None:
    """Append the command's output to `lines` and push events, until the output ends.

    Raises EOFError if the laptop disconnects.
    """
    assert process.stdout is not None
    output, laptop = process.stdout.fileno(), call.connection.source.fileno()
    latest: Dict[str, Any] = {}
    incomplete = b""
    while True:
        readable, _, _ = select.select([output, laptop], [], [], POLL_S)
        if laptop in readable:
            raise EOFError("the laptop closed the connection")
        if output in readable:
            data = os.read(output, 65536)
            *whole, incomplete = (incomplete + data).split(b"\n")
            texts = [line.decode("utf-8", "replace").rstrip() for line in (whole if data else [incomplete])]
            lines.extend(texts)
            if not data:
                return
            events = [event for event in map(pip.event, texts) if event is not None] if pip is not None else []
        else:
            installation = pip.installation() if pip is not None else None
            events = [installation] if installation is not None else []
        if events and events[-1] != latest:
            latest = events[-1]
            call.push(latest)
        call.keep_alive(latest)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command and its children with SIGINT, so that pip removes its temporary files, and later with SIGKILL."""
    if process.poll() is None:
        for number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ENDING_S)
                break
    if process.stdout is not None:
        process.stdout.close()


def _failed(failure: str, text: str, where: str) -> Refusal:
    found = explain_failure(text)
    reason = f"no space left for byte code ({CUT})" if CUT in text else found.reason
    message = "\n".join([f"{failure}: {reason}", *found.lines])
    for phrase, number in FULL.items():
        if phrase in text:
            kind, _ = DISK_ERRORS[number]
            return Refusal(
                kind,
                message,
                where=where,
                hint=on_host("df -h {}", where),
                exit_code=ExitCode.DISK,
            )
    return refused("install", message, found.place or where, found.hint)


def refused(kind: str, message: str, where: str, hint: str = "") -> Refusal:
    return Refusal(kind, message, where=where, hint=hint, exit_code=ExitCode.ENVIRONMENT)
