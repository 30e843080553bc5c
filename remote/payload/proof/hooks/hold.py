"""Holding still after the report until the runner ends this process, and ending without it where it died."""

from __future__ import annotations

import os
import threading
import time

RUNNER = "HALFSTEP_PROOF_RUNNER"
LONGEST_HOLD_S = 300.0
LOOK_EVERY_S = 0.5
RUNNER_GONE = 75


def runner_lives() -> bool:
    """The process that started the proof is there; RUNNER is `pid:start ticks`, ticks empty where none can be had."""
    pid, _, ticks = os.environ.get(RUNNER, "").partition(":")
    if not pid:
        return True
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except FileNotFoundError:
        return not os.path.isdir("/proc/self") and _answers(int(pid))
    fields = line[line.rindex(b")") + 2 :].split()
    return fields[0] not in (b"Z", b"X") and (not ticks or fields[19].decode() == ticks)


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def hold() -> None:
    """Never returns: the runner kills us, or we end once it is gone or has forgotten us."""
    until = time.monotonic() + LONGEST_HOLD_S
    while runner_lives() and time.monotonic() < until:
        time.sleep(0.05)
    os._exit(RUNNER_GONE)


def watch_runner() -> None:
    """A thread ends this process once the runner is gone: nothing of a proof may live on where it was killed."""
    if not os.environ.get(RUNNER):
        return
    mine = os.getpid()

    def look() -> None:
        while os.getpid() == mine:
            if not runner_lives():
                os._exit(RUNNER_GONE)
            time.sleep(LOOK_EVERY_S)

    threading.Thread(target=look, name="halfstep-lease", daemon=True).start()
