"""How often progress is worth a line where no spinner turns: a log of a night must not hold a line for every step."""

from __future__ import annotations

SHARE = 0.05
LEAST_S = 5.0
MOST_S = 30.0


class Pace:
    """What was told last, and when. Words are told when they change; numbers by their share, or after a while."""

    def __init__(self) -> None:
        self._words = ""
        self._done: float | None = None
        self._at = 0.0

    def due(self, text: str, now: float, done: float | None = None, total: float | None = None) -> bool:
        """Whether this is to be told at the moment `now` (seconds); what is due counts as told."""
        if not self._is_due(text, now, done, total):
            return False
        self._words, self._done, self._at = text, done, now
        return True

    def waited(self, now: float, least_s: float) -> bool:
        """Whether the last line is at least that long ago."""
        return now - self._at >= least_s

    def _is_due(self, text: str, now: float, done: float | None, total: float | None) -> bool:
        if done is None:
            return text != self._words
        if self._done is None or done < self._done:
            return True
        if done == self._done:
            return False
        if total and done >= total:
            return True
        further = bool(total) and done - self._done >= SHARE * (total or 0.0)
        waited = now - self._at
        return waited >= MOST_S or (further and waited >= LEAST_S)
