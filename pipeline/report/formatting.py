"""Format numbers, durations and untrusted text for the page."""

from __future__ import annotations

import datetime
import html
import math

from remote.protocol.quantities import UNKNOWN, is_moment, is_time
from remote.protocol.text import safe_text

MAX_TEXT = 4000


def text(value: object) -> str:
    """Escape a value as HTML text or attribute, without control and bidirectional characters."""
    return html.escape(safe_text(str(value), max_line=MAX_TEXT), quote=True)


def number(value: float) -> str:
    """Format a number with about three significant digits."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    size = abs(value)
    if value == int(value) and size < 1e6:
        return f"{int(value):,}".replace(",", "\u202f").replace("-", "−")
    if size < 1e-3 or size >= 1e6:
        mantissa, _, exponent = f"{value:.2e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}".replace("-", "−")
    message = f"{value:.{max(0, 2 - math.floor(math.log10(size)))}f}"
    return (message.rstrip("0").rstrip(".") if "." in message else message).replace("-", "−")


def duration(seconds: float) -> str:
    """Format seconds in at most two units."""
    if not is_time(seconds):
        return UNKNOWN
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f}\u00a0ms"
    if seconds < 60:
        return f"{seconds:.1f}\u00a0s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if hours < 1:
        return f"{minutes}\u00a0min\u00a0{int(seconds % 60)}\u00a0s"
    if days < 1:
        return f"{hours}\u00a0h\u00a0{minutes % 60}\u00a0min"
    return f"{days}\u00a0d\u00a0{hours % 24}\u00a0h"


def moment(unix: float) -> str:
    """Format a time in UTC, to the minute."""
    if not is_moment(unix):
        return UNKNOWN
    return datetime.datetime.fromtimestamp(unix, datetime.UTC).strftime("%-d %B %Y, %H:%M UTC")
