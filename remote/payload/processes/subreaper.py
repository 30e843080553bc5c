"""Becoming the parent of every orphan below: workers of torch have sessions of their own and outlive their launcher."""

from __future__ import annotations

import sys

try:
    import ctypes
except ImportError:  # a Python built without libffi
    ctypes = None  # type: ignore[assignment]

PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Orphans among our descendants become our children, where the kernel can do that (Linux 3.4)."""
    if ctypes is not None and sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
