"""What a long verb says while it works: the interface that stages speak to, and the one where nobody listens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pipeline.messages.outcome import StageOutcome


class Listener(Protocol):
    """Somebody listens, or nobody does; the work is the same."""

    def heading(self, text: str) -> None:
        """A line over everything that follows."""
        ...

    def began(self, stage: str) -> None:
        """A stage is at work from now on."""
        ...

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """How far the stage at work is; `total` None where nobody knows."""
        ...

    def detail(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """What the stage is doing at this moment, as one of many such moments."""
        ...

    def note(self, text: str) -> None:
        """One line worth keeping on the screen."""
        ...

    def ended(self, stage: StageOutcome) -> None:
        """A stage is at work no longer."""
        ...

    def curve(self, name: str, values: Sequence[float]) -> None:
        """How something went, from its first value to its last."""
        ...


class NoListener:
    """Tells nothing."""

    def heading(self, text: str) -> None:
        del text

    def began(self, stage: str) -> None:
        del stage

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        del text, done, total

    def detail(self, text: str, done: float | None = None, total: float | None = None) -> None:
        del text, done, total

    def note(self, text: str) -> None:
        del text

    def ended(self, stage: StageOutcome) -> None:
        del stage

    def curve(self, name: str, values: Sequence[float]) -> None:
        del name, values
