"""A listener for tests: it ignores every event."""

from collections.abc import Sequence

from pipeline.messages.outcome import StageOutcome
from remote.protocol.jobs import JobNews


class NoListener:
    """Ignores everything."""

    def heading(self, text: str) -> None:
        del text

    def stage_started(self, stage: str) -> None:
        del stage

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        del text, done, total

    def detail(self, text: str, done: float | None = None, total: float | None = None) -> None:
        del text, done, total

    def training(self, news: JobNews) -> None:
        del news

    def note(self, text: str, command: str = "") -> None:
        del text

    def stage_ended(self, stage: StageOutcome) -> None:
        del stage

    def curve(self, name: str, values: Sequence[float]) -> None:
        del name, values
