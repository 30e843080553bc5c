"""The interface through which long verbs report progress, and an implementation that ignores all reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pipeline.messages.outcome import StageOutcome
from remote.protocol.jobs import JobNews


class Listener(Protocol):
    """Receives the progress of a verb. A listener does not influence the actions of the verb."""

    def heading(self, text: str) -> None:
        """Start a section with a title."""
        ...

    def stage_started(self, stage: str) -> None:
        """Report that the stage `stage` starts."""
        ...

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Report the progress of the running stage. `total` is None if the total is unknown."""
        ...

    def detail(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Report one of many small steps. A listener may ignore most of these steps."""
        ...

    def training(self, news: JobNews) -> None:
        """Report the newest state of the job for which the stage waits."""
        ...

    def note(self, text: str, command: str = "") -> None:
        """Report a line that remains on the screen, and a command that is shown below it and is not wrapped."""
        ...

    def stage_ended(self, stage: StageOutcome) -> None:
        """Report that the stage has ended with this outcome."""
        ...

    def curve(self, name: str, values: Sequence[float]) -> None:
        """Report a series of values, oldest first."""
        ...


class NullListener:
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

    def note(self, text: str, command: str = "") -> None:
        pass

    def stage_ended(self, stage: StageOutcome) -> None:
        pass

    def curve(self, name: str, values: Sequence[float]) -> None:
        pass
