"""The stages' checkpoints: one small file per project, host and config, whole or absent, checksummed and versioned."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline.records.files import write_whole
from remote.protocol.values import Malformed, decode, dumps, encode

VERSION = 1


@dataclass(frozen=True)
class StageCheckpoint:
    """A stage says that it was done: for this fingerprint, made of these named inputs. Never proof by itself."""

    stage: str
    fingerprint: str
    inputs: dict[str, str] = field(default_factory=dict)
    run: str = ""
    seconds: float = 0.0
    finished_unix: float = 0.0
    notes: tuple[str, ...] = ()
    caveat: str = ""


@dataclass(frozen=True)
class StageCheckpoints:
    """Every claim of one project, host and config. `problem` says why an older file was not believed."""

    stages: dict[str, StageCheckpoint] = field(default_factory=dict)
    problem: str = ""

    def of(self, stage: str) -> StageCheckpoint | None:
        """What that stage claims; None where it claims nothing."""
        return self.stages.get(stage)

    def with_claim(self, claim: StageCheckpoint) -> StageCheckpoints:
        """These claims and this one, instead of an older one of its stage."""
        return replace(self, stages={**self.stages, claim.stage: claim})

    def without(self, stages: tuple[str, ...]) -> StageCheckpoints:
        """These claims without those of the stages."""
        return replace(self, stages={name: c for name, c in self.stages.items() if name not in stages})


def read_checkpoints(path: Path) -> StageCheckpoints:
    """The claims in `path`; a missing, damaged or newer file gives none, so that every stage looks again."""
    try:
        return parse_checkpoints(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return StageCheckpoints()


def parse_checkpoints(data: bytes) -> StageCheckpoints:
    """The claims in these bytes; what cannot be believed is no claim, and says why."""
    try:
        told = json.loads(data)
        version, body, digest = told["version"], told["claims"], told["sha256"]
    except (ValueError, KeyError, TypeError):
        return StageCheckpoints(problem="the record of stages is damaged; every stage looks again")
    if version != VERSION:
        return StageCheckpoints(problem=f"the record of stages has version {version}, this halfstep writes {VERSION}")
    if hashlib.sha256(dumps(body)).hexdigest() != digest:
        return StageCheckpoints(problem="the record of stages does not match its checksum; every stage looks again")
    try:
        claims = decode(dict[str, StageCheckpoint], body)
    except Malformed as error:
        return StageCheckpoints(problem=f"the record of stages is damaged ({error}); every stage looks again")
    return StageCheckpoints(claims)


def write_checkpoints(path: Path, claims: StageCheckpoints) -> None:
    """`path` holds the claims, whole."""
    body = encode(claims.stages)
    digest = hashlib.sha256(dumps(body)).hexdigest()
    write_whole(path, dumps({"version": VERSION, "claims": body, "sha256": digest}))


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
    """A claim made at this moment."""
    return StageCheckpoint(stage, fingerprint, inputs, run, seconds, time.time(), notes, caveat)
