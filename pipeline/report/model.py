"""Everything a report tells, as frozen values; the page is a pure function of a `RunReport`."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import Enum

from fixers.frame.change import FileChange, HostChange, Plan
from pipeline.messages.outcome import StageOutcome
from remote.protocol.events import Scalar
from remote.protocol.findings import Finding
from remote.protocol.jobs import JobState
from remote.protocol.proof import ProofReport

Facts = tuple[tuple[str, str], ...]


class Verdict(Enum):
    """The report in one word, and its colour."""

    TRAINED = "trained"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"
    NOT_STARTED = "not started"


@dataclass(frozen=True)
class JobRow:
    """One training process of the run: its number, how it ended, and at which optimizer step it began and ended."""

    number: int
    state: JobState
    first_step: int | None = None
    last_step: int | None = None
    seconds: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class FixRow:
    """One change a fixer made: to a file (with its unified diff), or to the host (`path` empty)."""

    fixers: tuple[str, ...]
    path: str = ""
    why: tuple[str, ...] = ()
    diff: str = ""


@dataclass(frozen=True)
class CureRow:
    """An error met while training: the catalog's name of it, its cause, and what was done about it."""

    error: str
    cause: str
    done: str
    job: int = 0


@dataclass(frozen=True)
class RunReport:
    """One run. Times are Unix seconds; `written_unix` is when the report was made. Empty parts leave no section.

    `precision` is a mode, or `mode: why`. `environment` and `artifacts` are shown in the order given; `not_checked`
    says what nobody looked at, and why.
    """

    run: str
    config: str
    host: str
    verdict: Verdict
    project: str = ""
    card: str = ""
    precision: str = ""
    step: int | None = None
    steps: int | None = None
    reason: str = ""
    began_unix: float | None = None
    ended_unix: float | None = None
    written_unix: float | None = None
    version: str = ""
    stages: tuple[StageOutcome, ...] = ()
    jobs: tuple[JobRow, ...] = ()
    scalars: tuple[Scalar, ...] = ()
    fixes: tuple[FixRow, ...] = ()
    proof: ProofReport | None = None
    cures: tuple[CureRow, ...] = ()
    findings: tuple[Finding, ...] = ()
    environment: Facts = ()
    config_text: str = ""
    artifacts: Facts = ()
    not_checked: Facts = ()

    @property
    def seconds(self) -> float | None:
        """How long it ran, where both ends are known."""
        if self.began_unix is None or self.ended_unix is None or self.ended_unix <= self.began_unix:
            return None
        return self.ended_unix - self.began_unix


def fix_of(change: FileChange) -> FixRow:
    """A file's change with its unified diff; bytes that are no text are compared by size only."""
    try:
        before, after = change.before.decode(), change.after.decode()
    except UnicodeDecodeError:
        diff = f"{len(change.before)} bytes before, {len(change.after)} after"
    else:
        lines = difflib.unified_diff(
            before.splitlines(), after.splitlines(), change.path, change.path, lineterm="", n=2
        )
        diff = "\n".join(lines)
    return FixRow(tuple(sorted(change.fixers)), change.path, change.why, diff)


def fix_rows(plan: Plan) -> tuple[FixRow, ...]:
    """Every change of the plan as the report tells it: files with their diffs, then acts on the host."""
    files = (fix_of(change) for change in plan.changes if isinstance(change, FileChange))
    acts = (FixRow((act.fixer,), why=(act.summary,)) for act in plan.changes if isinstance(act, HostChange))
    return (*files, *acts)
