"""Checks of the whole command: whether it failed, ended early, was too slow, or ran without the hooks."""

from __future__ import annotations

import re
from typing import Iterator, Optional

from remote.payload.processes.command_jobs import SUBMITS
from remote.payload.proof.evidence import Evidence, Result, error, passed, warning
from remote.payload.proof.failure_text import failure_text
from remote.payload.proof.no_steps import could_not_record, explain_no_steps
from remote.payload.proof.unhooked import UNSIGNED
from remote.protocol.exits import ExitCode
from remote.protocol.proof import NotChecked

INPUT_MISMATCH = re.compile(
    r"should be the same|must have the same dtype|expected (?:scalar type|dtype|m1 and m2|mat1 and mat2)"
)
LOSS_MISMATCH = "Found dtype"
AUTOCAST_WAITS = (
    "torch and Accelerate leave float16 autocast off on this CPU, so two tensors of one operation differ in dtype; "
    "on a card, autocast casts them"
)
SUBMITTED = (
    "the command submits jobs to Slurm itself, where halfstep neither proves nor follows the training; the jobs of this"
    " proof were cancelled"
)
SUBMIT_HINT = (
    "write `scheduler: slurm` and the #SBATCH options (`slurm: {...}`) into the host file, and start the batch script"
    " with bash in train.command instead of sbatch"
)
NEEDS_CARD = "pipeline verify --no-proof   (the proof of this model needs a card; a CPU trains it in float32 only)"


def judge(evidence: Evidence) -> Iterator[Result]:
    yield from _outcome(evidence)
    world = max((rank.world for rank in evidence.ranks), default=0)
    if evidence.ranks and len(evidence.ranks) < world:
        yield warning("ranks", f"{len(evidence.ranks)} of {world} processes reported")
    for fault in [fault for rank in evidence.ranks for fault in rank.faults][:3]:
        yield NotChecked("hooks", fault.strip().splitlines()[-1] if fault.strip() else fault)


def _outcome(evidence: Evidence) -> Iterator[Result]:
    failure, unsigned = _failure(evidence), evidence.unsigned
    if evidence.slurm_jobs:
        yield error(SUBMITS, SUBMITTED, hint=SUBMIT_HINT, code=ExitCode.ENVIRONMENT)
    elif unsigned is not None:
        yield error(UNSIGNED, unsigned.message, hint=unsigned.hint, code=ExitCode.ENVIRONMENT)
    elif evidence.memory is not None and not evidence.memory.fits and failure is not None:
        yield error("gpu-memory", evidence.memory.shortage(), hint=evidence.memory.hint, code=ExitCode.GPU)
    elif failure is not None:
        yield from _failed(evidence, failure)
    elif not evidence.steps and (could_not_record(evidence) or not evidence.timed_out):
        reason = explain_no_steps(evidence)
        yield warning("proof-blind", reason.message, hint=reason.hint)
    else:
        yield _ended(evidence)


LONGEST_MESSAGE = 400


def _failure(evidence: Evidence) -> Optional[str]:
    """Return the exception, last text or exit status of a command that failed, or None if it did not fail."""
    crash = next((rank.crash for rank in evidence.ranks if rank.crash is not None), None)
    if crash is not None:
        return f"{crash.type}: {' '.join(crash.message.split())[:LONGEST_MESSAGE]}"
    if evidence.exit in (None, 0):
        return None
    return failure_text(evidence.output_tail)[:LONGEST_MESSAGE] or f"exit {evidence.exit}"


def _failed(evidence: Evidence, failure: str) -> Iterator[Result]:
    waits = evidence.autocast_only_on_card and evidence.has_float16("trainable", "frozen")
    if waits and INPUT_MISMATCH.search(failure):
        yield error("autocast", AUTOCAST_WAITS, hint=NEEDS_CARD)
    yield error("command-failed", f"the training command failed: {failure}")
    if waits and LOSS_MISMATCH in failure:
        # The cause may also be a wrong loss. The catalog entry for this message names a fixer for a wrong loss.
        yield warning("autocast", AUTOCAST_WAITS, hint=NEEDS_CARD)


def _ended(evidence: Evidence) -> Result:
    counted, required = len(evidence.counted), evidence.request.steps
    if evidence.timed_out:
        grade = warning if counted else error
        message = f"only {len(evidence.steps)} optimizer steps in {evidence.wall_s:.0f} s, but {required} were required"
        return grade("proof-timeout", message, hint="pipeline verify --no-proof")
    if not counted:
        skipped = sum(not step.applied for step in evidence.steps)
        others = (
            f"of {len(evidence.steps)} attempted steps, {skipped} were skipped, and the others had a learning rate of 0"
        )
        return error("proof-short", f"nothing is proved, because no optimizer step took effect: {others}")
    if counted < required and evidence.exit == 0:
        return warning("proof-short", f"the command ended by itself after {counted} effective optimizer steps")
    return passed("command", f"{len(evidence.steps)} optimizer steps were recorded, then the command was ended")
