"""Why a proof saw no optimizer step: what the Python processes of the command did, and what would make it visible."""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional, Sequence

from remote.payload.proof.pythons import CUSTOMIZE_HIDDEN, PATH_REPLACED, Python
from remote.payload.proof.seen import Seen

LONGEST_COMMAND = 80


class Reason(NamedTuple):
    """Words for a finding: what was seen, and what to do."""

    message: str
    hint: str


_REPLACED = "PYTHONPATH was set without its earlier value"
_HIDDEN = "another sitecustomize.py comes first on PYTHONPATH"
_CURES: Dict[str, Reason] = {
    PATH_REPLACED: Reason(_REPLACED, 'keep the earlier value when you set it: PYTHONPATH="$PYTHONPATH:src"'),
    CUSTOMIZE_HIDDEN: Reason(_HIDDEN, 'add your folders behind it: PYTHONPATH="$PYTHONPATH:src"'),
}
_UNKNOWN = Reason("the hooks were not loaded", "pass the environment on and start python without -I, -E and -S")


def hooks_were_absent(seen: Seen) -> bool:
    """Torch was loaded where the hooks were not: what the command did there is unknown."""
    return any(_fault(python) for python in seen.pythons) or _without(seen.pythons, torch=True) is not None


def why_nothing_was_seen(seen: Seen) -> Reason:
    """The most telling of: hooks that failed, torch without hooks, torch without a step, no torch, no hooks at all."""
    faulty = next((python for python in seen.pythons if _fault(python)), None)
    watched = next((python for python in seen.pythons if _imported(python)), None)
    outside = _without(seen.pythons, torch=True)
    if faulty is not None:
        last = faulty.fault.strip().splitlines()[-1]
        message = f"the hooks could not be put into torch in `{_words(faulty)}`: {last}"
        return Reason(message, "please report this error")
    if outside is not None:
        reason = _cure(outside.why)
        return Reason(f"`{_words(outside)}` loaded torch without the proof's hooks: {reason.message}", reason.hint)
    if watched is not None:
        return Reason(
            f"`{_words(watched)}` imported torch, but no optimizer step was seen before it ended",
            "the proof follows optimizers derived from torch.optim.Optimizer: check that the command takes a step",
        )
    if any(python.hooked for python in seen.pythons):
        return Reason(
            "the command ended without importing torch in any process of this host",
            "the proof sees only what `command` runs on the host itself, not in a container or on another machine",
        )
    other = _without(seen.pythons, torch=False)
    reason = _cure(other.why) if other is not None else _UNKNOWN
    return Reason(f"no Python process of the command had the proof's hooks: {reason.message}", reason.hint)


def _fault(python: Python) -> bool:
    return bool(python.fault)


def _imported(python: Python) -> bool:
    return python.hooked and python.torch


def _without(pythons: Sequence[Python], *, torch: bool) -> Optional[Python]:
    """A process known to run without the hooks. Forks of one that has them write no note either, and have no reason."""
    return next((one for one in pythons if not one.hooked and one.why and one.torch >= torch), None)


def _cure(why: str) -> Reason:
    if why.startswith("-"):
        return Reason(f"python {why} ignores PYTHONPATH", f"start python without {why}")
    return _CURES[why]


def _words(python: Python) -> str:
    words = python.command
    return words if len(words) <= LONGEST_COMMAND else f"{words[: LONGEST_COMMAND - 3]}..."
