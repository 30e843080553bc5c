"""Checks are not made if the hooks could not record a part of the report that the check needs."""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterable, Iterator

from remote.payload.proof.evidence import Evidence, Result
from remote.protocol.proof import NotChecked

_BATCHES = frozenset(
    {"labels-padding", "labels-prompt", "labels-ignored", "labels-aligned", "labels-end"}
    | {"loss-ignores", "loss-normalisation", "inputs-vary", "longest-batch"}
)
_MISUSES = frozenset({"gradient-cleared", "gradient-scale", "clip-before-unscale"})
_RECOMPUTED = frozenset({"loss-agreement", "padding-agreement", "audio-used"})
_STEPS = frozenset({"learning-rate", "scaler-trajectory", "scheduler-skipped-step", "step-time", "train-mode"})
_WITHOUT_TENSORS = _BATCHES | _MISUSES | _RECOMPUTED | _STEPS
"""The checks that need neither the tables of the models nor those of the trained tensors. All others need both."""
_NEEDED_BY: Dict[str, FrozenSet[str]] = {
    "average": frozenset({"average-moves"}),
    "changes": frozenset({"weights-between"}),
    "untied": frozenset({"tied-weights"}),
    "losses": frozenset({"loss-finite", "loss-dtype"}),
    "schedule": frozenset({"learning-rate"}),
    "gradient_flow": _MISUSES | {"gradient-clipping"},
    "batches": _BATCHES | {"labels-masked", "loss-dtype", "loss-accumulation"},
    "modules": frozenset({"autocast", "autocast-cache", "scaler", "activation-finite", "activation-headroom"}),
    "attention": frozenset({"attention-backend"}),
    "memory": frozenset({"peak-memory"}),
}


def without_unfounded(evidence: Evidence, results: Iterable[Result]) -> Iterator[Result]:
    """Yield the results, with NotChecked in the place of each result whose check needs a missing part."""
    missing = {part: reason for rank in evidence.ranks for part, reason in rank.missing.items()}
    for result in results:
        reason = next((why for part, why in missing.items() if _needs(result.check, part)), None)
        if reason is not None:
            yield NotChecked(result.check, f"the hooks could not record what the check needs: {reason}")
        else:
            yield result


def _needs(check: str, part: str) -> bool:
    if part in ("model", "trained"):
        return check not in _WITHOUT_TENSORS
    return check in _NEEDED_BY.get(part, ())
