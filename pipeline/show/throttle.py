"""Limit the number of progress lines that are printed without a live view."""

from __future__ import annotations

MIN_SHARE = 0.05
MIN_INTERVAL_S = 5.0
MAX_INTERVAL_S = 30.0


class Throttle:
    """Decides which progress messages are printed.

    New texts are printed at once. Counts are printed after a minimum share of the total or a maximum time.
    """

    def __init__(self) -> None:
        self._text = ""
        self._done: float | None = None
        self._printed_at = 0.0

    def due(self, text: str, now: float, done: float | None = None, total: float | None = None) -> bool:
        """Return True if the message is to be printed at time `now` (seconds), and record the message as printed."""
        if not self._is_due(text, now, done, total):
            return False
        self._text, self._done, self._printed_at = text, done, now
        return True

    def waited(self, now: float, least_s: float) -> bool:
        """Return True if the last line was printed at least `least_s` seconds ago."""
        return now - self._printed_at >= least_s

    def _is_due(self, text: str, now: float, done: float | None, total: float | None) -> bool:
        if done is None:
            return text != self._text
        if self._done is None or done < self._done:
            return True
        if done == self._done:
            return False
        if total and done >= total:
            return True
        further = bool(total) and done - self._done >= MIN_SHARE * (total or 0.0)
        waited = now - self._printed_at
        return waited >= MAX_INTERVAL_S or (further and waited >= MIN_INTERVAL_S)
