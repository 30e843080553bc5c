"""Sizes, durations, times and counts as text.

Numbers from a host may be infinite, NaN or out of range; the functions accept all numbers.
"""

from __future__ import annotations

import math
import time

LONGEST_S = 1e11
"""Three thousand years. A longer time can only be an error of the host."""
LAST_UNIX = 253_402_300_799
"""The end of the year 9999, in Unix time."""
UNKNOWN = "an unknown time"


def size(count: float) -> str:
    """Format a size of files or disks, in the decimal units of `df -H`: 1,234,567 bytes as '1.2 MB'."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB" if abs(count) < 1e6 else f"{count:.3g} TB"


def memory(count: float) -> str:
    """Format a size of RAM or GPU memory, in the binary units of nvidia-smi: 1,610,612,736 bytes as '1.5 GiB'."""
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB" if abs(count) < 1000 or abs(count) >= 1e9 else f"{count:.0f} GiB"


def duration(seconds: float) -> str:
    """Format a duration: 4,271 s as '1 h 11 min'. A negative duration (the clock was set back) is '0.0 s'."""
    if not is_time(seconds):
        return UNKNOWN
    seconds = max(0.0, seconds)
    if 0 < seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def moment(unix: float) -> str:
    """Format a Unix time as '2026-11-20 05:41:30 UTC'."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(unix)) if is_moment(unix) else UNKNOWN


def is_time(seconds: float) -> bool:
    """Return True if the number may be a duration in seconds, or the difference of two clocks."""
    return math.isfinite(seconds) and abs(seconds) < LONGEST_S


def is_moment(unix: float) -> bool:
    """Return True if the number is a Unix time up to the year 9999."""
    return math.isfinite(unix) and 0 <= unix <= LAST_UNIX


def count(number: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun: '1 file' or '3 files'."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
