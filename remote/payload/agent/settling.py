"""A payload that has just come to a host settles in behind the work it came for; see housekeeping.py."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading


def settle_behind(payload: str, compiled: str, workdir: str) -> None:
    """The housekeeping is under way, in a process of its own that nobody waits for and that outlives the line."""
    argv = [sys.executable, "-I", "-S", "-B", payload, "settle", compiled, workdir]
    null = subprocess.DEVNULL
    # In our session: Linux shares its time between sessions first, and only within one does being nice count.
    with contextlib.suppress(OSError):
        process = subprocess.Popen(argv, stdin=null, stdout=null, stderr=null, cwd="/")
        # A child that nobody waits for stays a zombie as long as we live.
        threading.Thread(target=process.wait, daemon=True).start()
