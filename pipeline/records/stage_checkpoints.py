"""Stage checkpoints: one versioned file with a checksum for each project, host and config."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline.records.files import write_atomic
from remote.project.digests import MAX_JSON, parse_record
from remote.protocol.regular import read_regular
from remote.protocol.values import Malformed, decode, dumps, encode

VERSION = 1


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
    """The last failure of a stage: when, and the message of its first error."""

    failed_unix: float
    message: str


@dataclass(frozen=True)
class StageCheckpoints:
    """All stage checkpoints of one project, host and config. `problem` is the reason why the file could not be used.

    `failures` has the last failure of each stage that has failed since it was done.
    """

    stages: dict[str, StageCheckpoint] = field(default_factory=dict)
    failures: dict[str, StageFailure] = field(default_factory=dict)
    problem: str = ""

    def of(self, stage: str) -> StageCheckpoint | None:
        """Return the checkpoint of the stage, or None if the stage has no checkpoint."""
        return self.stages.get(stage)

    def with_checkpoint(self, checkpoint: StageCheckpoint) -> StageCheckpoints:
        """Return a copy with `checkpoint`, which replaces an older checkpoint of the same stage."""
        failures = {name: failure for name, failure in self.failures.items() if name != checkpoint.stage}
        return replace(self, stages={**self.stages, checkpoint.stage: checkpoint}, failures=failures)

    def with_failure(self, stage: str, message: str) -> StageCheckpoints:
        """Return a copy without a checkpoint of that stage, in which the stage failed now."""
        failures = {**self.failures, stage: StageFailure(time.time(), message)}
        return replace(self.without((stage,)), failures=failures)

    def without(self, stages: tuple[str, ...]) -> StageCheckpoints:
        """Return a copy without the checkpoints of the named stages."""
        return replace(self, stages={name: c for name, c in self.stages.items() if name not in stages})


def read_checkpoints(path: Path) -> StageCheckpoints:
    """Read the checkpoints from a file.

    If the file is missing, damaged or from a newer version, the result has no checkpoints, and every stage runs again.
    """
    try:
        return parse_checkpoints(read_regular(path, MAX_JSON))
    except OSError:
        return StageCheckpoints()


def parse_checkpoints(data: bytes) -> StageCheckpoints:
    """Parse checkpoints. If the data is damaged, the result has no checkpoints, and `problem` is the reason."""
    try:
        record = parse_record(data)
        version, body, digest = record["version"], record["claims"], record["sha256"]
    except (ValueError, KeyError, TypeError):
        return StageCheckpoints(problem="the stage checkpoints are damaged; every stage is checked again")
    if version != VERSION:
        return StageCheckpoints(problem=f"the stage checkpoints have version {version}; this halfstep writes {VERSION}")
    if hashlib.sha256(dumps(body)).hexdigest() != digest:
        return StageCheckpoints(problem="the stage checkpoints have a wrong checksum; every stage is checked again")
    try:
        stages = decode(dict[str, StageCheckpoint], body)
        failures = decode(dict[str, StageFailure], record.get("failures", {}))
    except Malformed as error:
        return StageCheckpoints(problem=f"the stage checkpoints are damaged ({error}); every stage is checked again")
    return StageCheckpoints(stages, failures)


def write_checkpoints(path: Path, checkpoints: StageCheckpoints) -> None:
    """Write checkpoints atomically."""
    body = encode(checkpoints.stages)
    digest = hashlib.sha256(dumps(body)).hexdigest()
    failures = encode(checkpoints.failures)
    write_atomic(path, dumps({"version": VERSION, "claims": body, "sha256": digest, "failures": failures}))


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
