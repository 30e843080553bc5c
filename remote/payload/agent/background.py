"""Start the housekeeping in the background."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading


def start_housekeeping(payload: str, compiled: str, workdir: str) -> None:
    """Start housekeeping.py in a process that outlives the connection."""
    argv = [sys.executable, "-I", "-S", "-B", payload, "settle", compiled, workdir]
    null = subprocess.DEVNULL
    # In this session: Linux divides CPU time among sessions first, and niceness has an effect only within a session.
    with contextlib.suppress(OSError):
        process = subprocess.Popen(argv, stdin=null, stdout=null, stderr=null, cwd="/")
        # Without a wait the child would stay a zombie as long as this process runs.
        threading.Thread(target=process.wait, daemon=True).start()
