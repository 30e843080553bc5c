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
    # The process stays in this session, because Linux applies niceness only to the processes within one session.
    with contextlib.suppress(OSError):
        process = subprocess.Popen(argv, stdin=null, stdout=null, stderr=null, cwd="/")
        # Wait for the child; otherwise it would remain a zombie for the lifetime of this process.
        threading.Thread(target=process.wait, daemon=True).start()
