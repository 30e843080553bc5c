"""Reap the children of this process that have ended, and end the processes that they have started in their place."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Tuple


def reap_child(*, kills_group: bool = False) -> Tuple[int, int]:
    """Return the pid and the wait(2) status of a child that has ended, or (0, 0). Raises ChildProcessError.

    If `kills_group` is True, the processes of its process group are killed first. A process that starts a successor and
    exits, again and again, has exited before a signal to its pid arrives, but the kernel sends a signal to a group
    to every process in it. As long as the child is not reaped, no other group has this number.
    """
    if not kills_group or not hasattr(os, "waitid"):
        return os.waitpid(-1, os.WNOHANG)
    ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None:
        return 0, 0
    group = os.getpgid(ended.si_pid)
    # The group of a process outside of this pid namespace is 0, which os.killpg takes for the caller's own.
    if group not in (0, os.getpgrp()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    return os.waitpid(ended.si_pid, 0)
