"""The content of a report as frozen values; the page is a pure function of a `RunReport`."""

from __future__ import annotations

import difflib
from enum import Enum

from fixers.frame.change import FileChange, HostChange, Plan
from fixers.frame.diff_headers import header_name
from pipeline.messages.outcome import StageOutcome
from remote.protocol.dataclass import dataclass
from remote.protocol.evaluation import EvaluationResult
from remote.protocol.events import Scalar
from remote.protocol.findings import Finding
from remote.protocol.jobs import JobState
from remote.protocol.proof import ProofReport

Facts = tuple[tuple[str, str], ...]


class Verdict(Enum):
    """The state of the run in one word."""

    TRAINED = "trained"
    QUEUED = "queued"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"
    NOT_STARTED = "not started"
    EVALUATED = "evaluated"


VERDICTS = {
    JobState.ABSENT: Verdict.NOT_STARTED,
    JobState.RUNNING: Verdict.RUNNING,
    JobState.SUCCEEDED: Verdict.TRAINED,
    JobState.FAILED: Verdict.FAILED,
    JobState.STOPPED: Verdict.STOPPED,
    JobState.LOST: Verdict.LOST,
}
TONES = {
    Verdict.TRAINED: "good",
    Verdict.QUEUED: "calm",
    Verdict.RUNNING: "calm",
    Verdict.STOPPED: "warn",
    Verdict.FAILED: "bad",
    Verdict.LOST: "bad",
    Verdict.NOT_STARTED: "quiet",
    Verdict.EVALUATED: "good",
}
"""The CSS class in style.css for each verdict."""


@dataclass(frozen=True)
class JobRow:
    """One job of the run: its number, result, first and last optimizer step, and duration."""

    number: int
    state: JobState
    first_step: int | None = None
    last_step: int | None = None
    seconds: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class FixRow:
    """One change by fixers: of a file, with the file's unified diff, or of the host, with an empty `path`."""

    fixers: tuple[str, ...]
    path: str = ""
    why: tuple[str, ...] = ()
    diff: str = ""


@dataclass(frozen=True)
class CureRow:
    """A failure that was cured. `error` is its name in the catalog, and `done` describes the cure."""

    error: str
    cause: str
    done: str
    job: int = 0


@dataclass(frozen=True)
class RunReport:
    """The report of one run. Times are Unix seconds. Empty parts have no section on the page.

    `precision` is `mode` or `mode: reason`. `not_checked` has (check, reason) for each check that was not run. `loss`
    is the mean over the newest steps (remote/protocol/loss.py), and `best_loss` is the lowest of these means. `losses`
    are a few of these means at the steps `loss_steps`. `first_loss` is the loss of the first step, and `elapsed_s` is
    the time of all jobs; both are None if unknown. `secrets` are names of environment variables. `uncommitted` files
    differ from `commit`. `output` is the end of the trainer's output. `seen_unix` is the time at which the run was in
    this state.
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
    seen_unix: float | None = None
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
    evaluation: EvaluationResult | None = None
    loss: float | None = None
    best_loss: float | None = None
    losses: tuple[float, ...] = ()
    loss_steps: tuple[int, ...] = ()
    first_loss: float | None = None
    elapsed_s: float | None = None
    secrets: tuple[str, ...] = ()
    command: str = ""
    commit: str = ""
    uncommitted: tuple[str, ...] = ()
    output: str = ""

    @property
    def seconds(self) -> float | None:
        """Return the total duration of the run's jobs in seconds, without waiting times, or None if it is unknown."""
        return self.elapsed_s or sum(job.seconds or 0.0 for job in self.jobs) or None

    @property
    def is_ongoing(self) -> bool:
        """Return True if the training has not ended."""
        return self.verdict in (Verdict.QUEUED, Verdict.RUNNING)


def verdict_in(state: JobState, *, preempted: bool, waits: str) -> Verdict:
    """Return the verdict on a run whose newest job is in the state `state`."""
    if state is JobState.FAILED and preempted:
        return Verdict.STOPPED
    return Verdict.QUEUED if state is JobState.RUNNING and waits else VERDICTS[state]


def fix_of(change: FileChange) -> FixRow:
    """Return a row with the unified diff of a file. For a binary file, the row has only the sizes."""
    try:
        before, after = change.before.decode(), change.after.decode()
    except UnicodeDecodeError:
        diff = f"{len(change.before)} bytes before, {len(change.after)} after"
    else:
        name = header_name(change.path)
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="", n=2)
        diff = "\n".join(lines)
    return FixRow(tuple(sorted(change.fixers)), change.path, change.why, diff)


def fix_rows(plan: Plan) -> tuple[FixRow, ...]:
    """Return a row per change of the plan: files first, then changes of the host."""
    files = (fix_of(change) for change in plan.changes if isinstance(change, FileChange))
    acts = (FixRow((act.fixer,), why=(act.summary,)) for act in plan.changes if isinstance(act, HostChange))
    return (*files, *acts)
