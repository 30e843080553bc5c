"""Run a program of the host and read what it prints."""

from __future__ import annotations

import subprocess
from typing import Mapping, Optional, Sequence


def read_output(
    argv: Sequence[str], deadline_s: float, environment: Optional[Mapping[str, str]] = None
) -> Optional[str]:
    """Return what a program prints, or None if it is not installed, fails, or does not end in `deadline_s` seconds.

    `environment` is that of this process if it is None.
    """
    printed = read_bytes(argv, deadline_s, environment)
    return printed.decode("utf-8", "replace") if printed is not None else None


def read_bytes(
    argv: Sequence[str], deadline_s: float, environment: Optional[Mapping[str, str]] = None
) -> Optional[bytes]:
    """Return what `read_output` returns, before it is decoded."""
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            timeout=deadline_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
