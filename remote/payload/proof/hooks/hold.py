"""Wait after the report is written until the proof's runner kills this process. End this process if the runner dies."""

from __future__ import annotations

import os
import threading
import time

RUNNER = "HALFSTEP_PROOF_RUNNER"
LONGEST_HOLD_S = 300.0
LOOK_EVERY_S = 0.5
RUNNER_GONE = 75


def runner_is_alive() -> bool:
    """Return True if the process that started the proof is alive.

    RUNNER is `pid:start ticks`. The ticks are empty if the platform has none.
    """
    pid, _, ticks = os.environ.get(RUNNER, "").partition(":")
    if not pid:
        return True
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except FileNotFoundError:
        return not os.path.isdir("/proc/self") and _exists(int(pid))
    fields = line[line.rindex(b")") + 2 :].split()
    return fields[0] not in (b"Z", b"X") and (not ticks or fields[19].decode() == ticks)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def hold() -> None:
    """Wait to be killed. Exit after LONGEST_HOLD_S, or once the runner has ended. Never returns."""
    until = time.monotonic() + LONGEST_HOLD_S
    while runner_is_alive() and time.monotonic() < until:
        time.sleep(0.05)
    os._exit(RUNNER_GONE)


def watch_runner() -> None:
    """Start a thread that ends this process when the runner ends, so that a killed proof leaves nothing running."""
    if not os.environ.get(RUNNER):
        return
    own_pid = os.getpid()

    def look() -> None:
        while os.getpid() == own_pid:
            if not runner_is_alive():
                os._exit(RUNNER_GONE)
            time.sleep(LOOK_EVERY_S)

    threading.Thread(target=look, name="halfstep-lease", daemon=True).start()
