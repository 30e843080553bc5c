"""A payload that has just come to a host settles in behind the work it came for; see housekeeping.py."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading


def settle_behind(payload: str, compiled: str, workdir: str) -> None:
    """Starts the housekeeping, in a process of its own that nobody waits for and that outlives the line."""
    argv = [sys.executable, "-I", "-S", "-B", payload, "settle", compiled, workdir]
    null = subprocess.DEVNULL

    def work() -> None:
        # Run, not started: a child that nobody waits for stays a zombie as long as we live. In our session, because
        # Linux shares its time between sessions first, and only in one of them does being nice count.
        with contextlib.suppress(OSError):
            subprocess.run(argv, stdin=null, stdout=null, stderr=null, cwd="/", check=False)

    threading.Thread(target=work, daemon=True).start()
