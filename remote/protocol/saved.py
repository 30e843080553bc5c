"""Files that a run saved: trainer checkpoints and TensorBoard files."""

from __future__ import annotations

from typing import Tuple

from remote.protocol.dataclass import dataclass
from remote.protocol.hidden import Identifier


@dataclass(frozen=True)
class Checkpoint:
    """A trainer checkpoint with a SHA-256 manifest. `problem` is "" if every digest matches."""

    name: Identifier
    step: int
    bytes: int = 0
    problem: str = ""


@dataclass(frozen=True)
class ResumePoint:
    """The checkpoint from which the next job resumes, its path on the host, and renamed broken checkpoints."""

    path: Identifier
    checkpoint: Checkpoint
    broken: Tuple[Identifier, ...] = ()


@dataclass(frozen=True)
class EventFile:
    """One TensorBoard file of a run. `name` is relative to the run's folder; `size_bytes` counts complete records only.

    `head_sha256` is the digest of the first record. `ending` is a value of records.Ending: what follows the last
    complete record.
    """

    name: Identifier
    size_bytes: int
    head_sha256: Identifier = ""
    ending: Identifier = "clean"
