"""Check whether a test can mount a file system on this machine."""

from __future__ import annotations

import subprocess
from functools import cache


@cache
def why_no_mounts() -> str:
    """Return why this process cannot mount a file system, or "" if it can."""
    # In a separate mount namespace, which does not change this machine.
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/tmp"]
    try:
        done = subprocess.run(probe, check=False, capture_output=True)
    except FileNotFoundError:
        return "mounting needs root and util-linux"
    return "mounting needs root" if done.returncode else ""
