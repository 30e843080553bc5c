"""Stage checkpoints: one versioned and signed file for each project, host and config."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from pipeline.records.signed import NotOwn, read_in_place, write_in_place
from remote.protocol.dataclass import dataclass, field
from remote.protocol.values import decode, encode

VERSION = 3
KEPT = 8
"""The number of checkpoints of a stage. Runs of a config that differ in `--set` have different inputs."""
PROBLEM = "the stage checkpoints {}; every stage is checked again"


@dataclass(frozen=True)
class StageCheckpoint:
    """The record of a completed stage, with the fingerprint of its inputs.

    The record does not prove that the result still exists.
    """

    stage: str
    fingerprint: str
    inputs: dict[str, str] = field(default_factory=dict)
    run: str = ""
    seconds: float = 0.0
    finished_unix: float = 0.0
    notes: tuple[str, ...] = ()
    caveat: str = ""


@dataclass(frozen=True)
class StageFailure:
    """The last failure of a stage: when, the message of its first error, and the fingerprint of its inputs."""

    failed_unix: float
    message: str
    fingerprint: str


@dataclass(frozen=True)
class StageCheckpoints:
    """All stage checkpoints of one project, host and config. `problem` is the reason why the file could not be used.

    `stages` has the checkpoints of each stage for its last KEPT sets of inputs, the newest first. `failures` has, for
    each stage that failed after its last success, the last failure.
    """

    stages: dict[str, tuple[StageCheckpoint, ...]] = field(default_factory=dict)
    failures: dict[str, StageFailure] = field(default_factory=dict)
    problem: str = ""

    def of(self, stage: str) -> StageCheckpoint | None:
        """Return the newest checkpoint of the stage, or None if the stage has no checkpoint."""
        return next(iter(self.stages.get(stage, ())), None)

    def find(self, stage: str, fingerprint: str) -> StageCheckpoint | None:
        """Return the checkpoint of the stage for the inputs with this fingerprint, or None."""
        return next((one for one in self.stages.get(stage, ()) if one.fingerprint == fingerprint), None)

    def with_checkpoint(self, checkpoint: StageCheckpoint) -> StageCheckpoints:
        """Return a copy with `checkpoint` as the newest of its stage. It replaces one for the same inputs."""
        failures = {name: failure for name, failure in self.failures.items() if name != checkpoint.stage}
        others = self.without(checkpoint.stage, checkpoint.fingerprint).stages
        kept = (checkpoint, *others.get(checkpoint.stage, ()))[:KEPT]
        return replace(self, stages={**others, checkpoint.stage: kept}, failures=failures)

    def with_failure(self, stage: str, fingerprint: str, message: str) -> StageCheckpoints:
        """Return a copy with a failure of the stage at this time, and without the checkpoint for these inputs."""
        failures = {**self.failures, stage: StageFailure(time.time(), message, fingerprint)}
        return replace(self.without(stage, fingerprint), failures=failures)

    def without(self, stage: str, fingerprint: str) -> StageCheckpoints:
        """Return a copy without the checkpoint of the stage for these inputs."""
        left = tuple(one for one in self.stages.get(stage, ()) if one.fingerprint != fingerprint)
        others = {name: kept for name, kept in self.stages.items() if name != stage}
        return replace(self, stages={**others, stage: left} if left else others)


def read_checkpoints(path: Path) -> StageCheckpoints:
    """Read the checkpoints from a file.

    If the file is missing or damaged, has another version, or was not written by this user at this path, the result has
    no checkpoints, and every stage runs again. A cloned project may contain such a file.
    """
    try:
        record = read_in_place(path)
        if record["version"] != VERSION:
            version = f"have version {record['version']}, and this halfstep writes {VERSION}"
            return StageCheckpoints(problem=PROBLEM.format(version))
        stages = decode(dict[str, tuple[StageCheckpoint, ...]], record["claims"])
        return StageCheckpoints(stages, decode(dict[str, StageFailure], record["failures"]))
    except OSError:
        return StageCheckpoints()
    except NotOwn as error:
        return StageCheckpoints(problem=PROBLEM.format(error))
    except (ValueError, KeyError, TypeError) as error:
        return StageCheckpoints(problem=PROBLEM.format(f"are damaged ({type(error).__name__})"))


def write_checkpoints(path: Path, checkpoints: StageCheckpoints) -> None:
    """Write checkpoints atomically, with an HMAC."""
    claims, failures = encode(checkpoints.stages), encode(checkpoints.failures)
    write_in_place(path, {"version": VERSION, "claims": claims, "failures": failures})


def checkpoint_now(
    stage: str,
    fingerprint: str,
    inputs: dict[str, str],
    *,
    seconds: float,
    run: str = "",
    notes: tuple[str, ...] = (),
    caveat: str = "",
) -> StageCheckpoint:
    """Return a checkpoint with the current time."""
    return StageCheckpoint(stage, fingerprint, inputs, run, seconds, time.time(), notes, caveat)
