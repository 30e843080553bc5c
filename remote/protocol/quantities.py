"""Sizes, durations, times and counts as text."""

from __future__ import annotations

import time


def size(count: float) -> str:
    """Return 1,234,567 bytes of files as '1.2 MB', in the decimal units of `df -H` and disk labels."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def memory(count: float) -> str:
    """Return 1,610,612,736 bytes of RAM or GPU memory as '1.5 GiB', in the binary units of nvidia-smi."""
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB" if abs(count) < 1000 else f"{count:.0f} GiB"


def duration(seconds: float) -> str:
    """Return 4,271 s as '1 h 11 min'; a negative duration, after a clock was set back, as '0.0 s'."""
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
    """Return '2026-11-20 05:41:30 UTC'."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(unix))


def count(number: int, noun: str, plural: str = "") -> str:
    """Return '1 file' or '3 files'."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
