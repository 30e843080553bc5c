"""The interface through which long verbs report progress, and an implementation that ignores it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pipeline.messages.outcome import StageOutcome
from remote.protocol.jobs import JobNews


class Listener(Protocol):
    """Receives the progress of a verb. What the verb does never depends on its listener."""

    def heading(self, text: str) -> None:
        """A title for everything that follows."""
        ...

    def stage_started(self, stage: str) -> None:
        """The stage named `stage` starts."""
        ...

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """How far the running stage is; `total` is None if unknown."""
        ...

    def detail(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """One of many small steps; a listener may drop most of them."""
        ...

    def training(self, news: JobNews) -> None:
        """The newest state of the job that the stage waits for."""
        ...

    def note(self, text: str) -> None:
        """A line that stays on the screen."""
        ...

    def stage_ended(self, stage: StageOutcome) -> None:
        """The stage has ended with this outcome."""
        ...

    def curve(self, name: str, values: Sequence[float]) -> None:
        """A series of values, oldest first."""
        ...


class Silence:
    """A listener that ignores everything."""

    def heading(self, text: str) -> None:
        pass

    def stage_started(self, stage: str) -> None:
        pass

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        pass

    def detail(self, text: str, done: float | None = None, total: float | None = None) -> None:
        pass

    def training(self, news: JobNews) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def stage_ended(self, stage: StageOutcome) -> None:
        pass

    def curve(self, name: str, values: Sequence[float]) -> None:
        pass
