"""pip and similar commands, run while the laptop is kept informed, and ended when the laptop goes away."""

from __future__ import annotations

import collections
import contextlib
import os
import select
import signal
import subprocess
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence

from remote.payload.request.call import Call
from remote.payload.request.refusal import DISK_ERRORS, Refusal
from remote.protocol.exits import ExitCode

HEARTBEAT_S = 5.0
LOOK_S = 0.5
ENDING_S = 10.0
KEPT_LINES = 400
SHOWN_LINES = 8
PIP = ("-m", "pip", "--no-input", "--disable-pip-version-check")
FULL = {"No space left on device": 28, "Disk quota exceeded": 122}

Tell = Callable[[str], Optional[Dict[str, Any]]]
"""Takes one line of output, and gives the event that it is worth, or None."""


def run_alive(
    call: Call,
    argv: List[str],
    environment: Dict[str, str],
    complaint: str,
    *,
    cwd: Optional[str] = None,
    keep: Sequence[int] = (),
    tell: Optional[Tell] = None,
) -> str:
    """What the command printed (its last 400 lines). Raises Refusal with its last lines where it failed, EOFError where
    the laptop went away: the command and its children have ended by then.

    `keep` are descriptors that the command inherits, such as a lock that must be held as long as it lives.
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
        raise refused("no-python", f"{complaint}: {argv[0]}: {error.strerror}", argv[0]) from None
    lines: Deque[str] = collections.deque(maxlen=KEPT_LINES)
    try:
        _follow(call, process, lines, tell)
        process.wait()
    finally:
        _end(process)
    text = "\n".join(lines)
    if process.returncode != 0:
        raise _failed(complaint, text, argv[0])
    return text


def _follow(call: Call, process: subprocess.Popen[bytes], lines: Deque[str], tell: Optional[Tell]) -> None:
    """Every line goes into `lines`, until the command closes its output. Raises EOFError where the laptop is gone."""
    assert process.stdout is not None
    output, laptop = process.stdout.fileno(), call.line.source.fileno()
    latest: Dict[str, Any] = {}
    held, spoke = b"", time.monotonic()
    while True:
        readable, _, _ = select.select([output, laptop], [], [], LOOK_S)
        if laptop in readable:
            raise EOFError("the laptop closed the line")
        event: Optional[Dict[str, Any]] = None
        if output in readable:
            data = os.read(output, 65536)
            *whole, held = (held + data).split(b"\n")
            for line in whole if data else [held]:
                text = line.decode("utf-8", "replace").rstrip()
                lines.append(text)
                event = (tell(text) if tell is not None else None) or event
            if not data:
                return
        if event is not None or time.monotonic() - spoke > HEARTBEAT_S:
            latest = event or latest
            call.push(latest)
            spoke = time.monotonic()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Nothing of the command is left. pip removes its temporary files when it is interrupted, so that comes first."""
    if process.poll() is None:
        for number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ENDING_S)
                break
    if process.stdout is not None:
        process.stdout.close()


def _failed(complaint: str, text: str, where: str) -> Refusal:
    message = "\n".join([f"{complaint}: {reason_of(text)}", *last_lines(text)])
    for words, number in FULL.items():
        if words in text:
            kind, _ = DISK_ERRORS[number]
            return Refusal(kind, message, where=where, hint="df -h", exit_code=ExitCode.DISK)
    return refused("install", message, where)


def reason_of(text: str) -> str:
    """pip writes ERROR on the lines that matter; the last one sums up."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.partition("ERROR:")[2].strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["no output"])[-1][:400]


def last_lines(text: str) -> List[str]:
    """The last lines of output, without pip's notices, progress and empty lines."""
    lines = [line.rstrip()[:200] for line in text.splitlines() if line.strip()]
    kept = [
        line
        for line in lines
        if not line.lstrip().startswith(("[notice]", "WARNING: Location", "Progress ", "Looking in "))
    ]
    return kept[-SHOWN_LINES:] if len(kept) > 1 else []


def refused(kind: str, message: str, where: str, hint: str = "") -> Refusal:
    return Refusal(kind, message, where=where, hint=hint, exit_code=ExitCode.ENVIRONMENT)
