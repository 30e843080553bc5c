"""What a pull brought home, file by file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity


class PulledState(Enum):
    """WHOLE: all that lies there is here. WAITING: its end is no whole record yet. DAMAGED: nobody can read what comes
    after what is here. SKIPPED: it could not be taken. REFUSED: it may not be written here. LEFT: it was not wanted."""

    WHOLE = "whole"
    WAITING = "waiting"
    DAMAGED = "damaged"
    SKIPPED = "skipped"
    REFUSED = "refused"
    LEFT = "left"


SEVERITY = {
    PulledState.WHOLE: Severity.WARNING,
    PulledState.WAITING: Severity.INFO,
    PulledState.DAMAGED: Severity.WARNING,
    PulledState.SKIPPED: Severity.WARNING,
    PulledState.REFUSED: Severity.ERROR,
}


@dataclass(frozen=True)
class PulledFile:
    """One file: the host's name, where it lies here, its size here, what came now, and why if it is not whole."""

    name: str
    path: Path
    state: PulledState
    size_bytes: int = 0
    added_bytes: int = 0
    reason: str = ""


@dataclass(frozen=True)
class PullReport:
    """Every file that the host offered."""

    files: tuple[PulledFile, ...] = ()

    @property
    def added_bytes(self) -> int:
        return sum(file.added_bytes for file in self.files)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is not as it should be; a name that may not be written here is an error and ends as 50."""
        return tuple(
            Finding(
                f"pull-{file.state.value}",
                SEVERITY[file.state],
                f"{file.name}: {file.reason}",
                where=str(file.path),
                exit_code=ExitCode.PULL if file.state is PulledState.REFUSED else ExitCode.OK,
            )
            for file in self.files
            if file.reason and file.state in SEVERITY
        )
