"""Make this process a subreaper, so that it becomes the parent of torch workers whose launcher has died."""

from __future__ import annotations

import sys

try:
    import ctypes
except ImportError:  # A Python that was built without libffi has no ctypes.
    ctypes = None  # type: ignore[assignment]

PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Make this process the parent of its orphaned descendants (Linux 3.4 and newer). Does nothing on other systems."""
    if ctypes is not None and sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
