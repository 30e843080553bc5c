"""Explain why a proof recorded no optimizer step, and suggest a change. Judges the command's Python processes."""

from __future__ import annotations

from typing import Optional, Sequence

from remote.payload.proof.evidence import Evidence
from remote.payload.proof.pythons import Python
from remote.payload.proof.unhooked import Reason, reason_of, shown

REPORT = "please report this error"
_UNKNOWN = Reason("the hooks were not loaded", "pass the environment on and start python without -I, -E and -S")


def could_not_record(evidence: Evidence) -> bool:
    """Return True if torch was loaded in a process without working hooks, so that its steps are unknown."""
    faulty = any(python.fault for python in evidence.pythons) or any(rank.faults for rank in evidence.ranks)
    return faulty or _without(evidence.pythons, torch=True) is not None


def explain_no_steps(evidence: Evidence) -> Reason:
    """Return the most specific reason.

    The reasons are checked in this order: hooks that failed at their start, hooks that failed later, torch without
    hooks, torch without a step, no torch, no hooks.
    """
    pythons = evidence.pythons
    failed = _failed_hooks(evidence)
    if failed is not None:
        return failed
    outside = _without(pythons, torch=True)
    if outside is not None:
        reason = reason_of(outside.why)
        return Reason(f"{shown(outside)} loaded torch without the proof's hooks: {reason.message}", reason.hint)
    hooked = next((one for one in pythons if one.hooked and one.torch), None)
    if hooked is not None:
        return Reason(
            f"{shown(hooked)} imported torch, but no optimizer step was recorded before it ended",
            "the proof follows optimizers derived from torch.optim.Optimizer: check that the command takes a step",
        )
    if any(one.hooked for one in pythons):
        return Reason(
            "the command ended without importing torch in any process of this host",
            "the proof records only what `command` runs on the host itself, not in a container or on another machine",
        )
    other = _without(pythons, torch=False)
    reason = reason_of(other.why) if other is not None else _UNKNOWN
    return Reason(f"no Python process of the command had the proof's hooks: {reason.message}", reason.hint)


def _failed_hooks(evidence: Evidence) -> Optional[Reason]:
    faulty = next((one for one in evidence.pythons if one.fault), None)
    if faulty is not None:
        last = faulty.fault.strip().splitlines()[-1]
        message = f"the hooks could not be installed into torch in {shown(faulty)}: {last}"
        return Reason(message, REPORT)
    failed = next((rank for rank in evidence.ranks if rank.faults), None)
    if failed is not None:
        last = (failed.faults[0].strip().splitlines() or [""])[-1]
        return Reason(f"the hooks failed while they recorded the steps of rank {failed.rank}: {last}", REPORT)
    return None


def _without(pythons: Sequence[Python], *, torch: bool) -> Optional[Python]:
    """Return a process that ran without the hooks for a known reason, or None.

    A forked child of a process with hooks looks like a process without hooks. Such a child is not returned, because it
    has no known reason.
    """
    return next((one for one in pythons if not one.hooked and one.why and one.torch >= torch), None)
