"""The survey of a project's runs on a host, without the facts about the machine that `Survey` has."""

from __future__ import annotations

from typing import Optional, Sequence, Tuple

from remote.protocol.dataclass import dataclass
from remote.protocol.jobs import RunSurvey


@dataclass(frozen=True)
class RunsRequest:
    """The project whose runs are surveyed."""

    project: str


@dataclass(frozen=True)
class RunsSurvey:
    """Every run of a project, oldest first, at `clock_unix`, the host's time."""

    clock_unix: float
    runs: Tuple[RunSurvey, ...] = ()

    def run(self, name: str) -> Optional[RunSurvey]:
        """Return the run with the id `name`, or None if the host does not have it."""
        return find_run(self.runs, name)


def find_run(runs: Sequence[RunSurvey], name: str) -> Optional[RunSurvey]:
    """Return the run with the id `name`, or None."""
    return next((run for run in runs if run.run == name), None)
