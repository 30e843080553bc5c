"""The result of a pull, file by file."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity


class PulledState(Enum):
    """The state of one file after a pull.

    WHOLE: complete. WAITING: its last record is still being written. DAMAGED: later records cannot be read.
    SKIPPED: not copied. REFUSED: its name is unsafe. LEFT: it is not needed.
    """

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
    """One file: its name on the host, its local path and size, the bytes that were added, and why it is incomplete."""

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
        """The findings about incomplete files. An unsafe name is an error with exit code 50."""
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
