"""What gradients carry, optimizer by optimizer, where they are clipped, divided by the loss scale and applied."""

from __future__ import annotations

import math
import weakref
from typing import Any, Dict, List, Optional, Set, Tuple

from .tensors import parameters_of, values_of

SCALED, PLAIN, DIVIDED, APPLIED, KEPT, BY_HAND = "scaled", "plain", "divided", "applied", "kept", "by hand"
FEW = 8

Versions = List[Optional[Tuple[int, int]]]
Snapshot = List[Tuple[Any, Versions]]


class Scaling:
    """Notes what is done to gradients in the wrong order; `wrong` counts it by kind.

    An optimizer's gradients are known by what was added to them since they were cleared: by a backward pass from a
    scaled loss, or from a plain one. A backward pass that touches none of its gradients says nothing about it.
    """

    def __init__(self) -> None:
        self.wrong: Dict[str, int] = {}
        self.right = 0
        self.thrown = 0
        self._optimizers: Any = weakref.WeakSet()
        self._carried: Any = weakref.WeakKeyDictionary()
        self._left: Any = weakref.WeakKeyDictionary()
        self._weights: Any = weakref.WeakKeyDictionary()
        self._before: Snapshot = []

    def built(self, optimizer: Any) -> None:
        """An optimizer to look at."""
        self._optimizers.add(optimizer)

    def begin(self) -> None:
        """A backward pass begins: what was cleared since the last one carries nothing any more.

        Gradients that a step has applied and that somebody has changed since are kept by design: faded, or reset.
        """
        for optimizer in list(self._carried):
            if APPLIED in self._carried[optimizer] and not self._is_untouched(optimizer):
                self._carried[optimizer].discard(APPLIED)
            if _is_clear(optimizer):
                self.thrown += self._is_thrown(optimizer)
                del self._carried[optimizer]
        self._before = [(one, _versions(one)) for one in self._optimizers]

    def end(self, kind: str) -> None:
        """It is over; `kind` is SCALED or PLAIN, or anything else where that cannot be told."""
        for optimizer, versions in self._before:
            if versions != _versions(optimizer):
                carried = self._of(optimizer)
                if APPLIED in carried:
                    carried.remove(APPLIED)
                    carried.add(KEPT)
                carried.add(kind)
                self._left[optimizer] = _versions(optimizer)
                self._weights[optimizer] = _weights(optimizer)
        self._before = []

    def _is_thrown(self, optimizer: Any) -> bool:
        """What a backward pass gave was cleared by somebody before anything used it.

        Of two optimizers, one may clear what the other's loss has left behind; and weights that somebody moves by hand
        have used their gradients.
        """
        alone = len(self._optimizers) == 1 and not self._is_untouched(optimizer)
        used = self._weights.get(optimizer) != _weights(optimizer)
        return alone and not used and bool(self._carried[optimizer] & {SCALED, PLAIN, BY_HAND})

    def _is_untouched(self, optimizer: Any) -> bool:
        """Nobody has changed its gradients since a backward pass, a clipping or its own step."""
        return bool(self._left.get(optimizer) == _versions(optimizer))

    def _of(self, optimizer: Any) -> Set[str]:
        found: Set[str] = self._carried.setdefault(optimizer, set())
        return found

    def clipping(self, parameters: List[Any]) -> None:
        """Gradients of these parameters are about to be clipped."""
        owners = self._owners(parameters)
        if owners and all(self._of(one) == {APPLIED} and self._is_untouched(one) for one in owners):
            self._note("clipped_late")
        self._note_by_hand(owners)

    def clipped(self, parameters: List[Any], norm: Optional[float], limit: float, scale: float) -> None:
        """They were, at this norm (None: unknown).

        Where they still carry the loss scale, a limit that was multiplied by it too cuts off as much as it should. One
        below the root of the scale was not: limits without it are about 1.
        """
        for optimizer in self._owners(parameters):
            if SCALED in self._of(optimizer) and (norm is None or math.isfinite(norm)):
                cut = norm is not None and limit < min(norm, math.sqrt(scale))
                self._note("clipped_scaled" if cut else "clipped_with_scale")
            self._left[optimizer] = _versions(optimizer)

    def _owners(self, parameters: List[Any]) -> List[Any]:
        given = {id(parameter) for parameter in parameters}
        return [one for one in self._optimizers if any(id(p) in given for p in parameters_of(one))]

    def _note_by_hand(self, optimizers: List[Any]) -> None:
        """What a loss was multiplied by is still in their gradients, which are about to be used."""
        for optimizer in optimizers:
            if BY_HAND in self._of(optimizer) and self._is_untouched(optimizer):
                self._of(optimizer).discard(BY_HAND)
                self._note("by_hand_kept")

    def dividing(self, optimizer: Any) -> None:
        """The scaler divides this optimizer's gradients by its scale."""
        carried = self._of(optimizer)
        untouched = self._is_untouched(optimizer)
        if SCALED in carried and PLAIN in carried and untouched:
            self._note("partly_scaled")
        elif PLAIN in carried and untouched:
            self._note("divided_plain")
        elif SCALED in carried:
            self.right += 1
        carried -= {SCALED, PLAIN}
        carried.add(DIVIDED)

    def stepping(self, optimizer: Any, scaler: Any) -> None:
        """An optimizer is about to take its gradients: through the scaler, or as they are (None)."""
        # Whoever changed them since backward may have divided them by the scale.
        if scaler is None and SCALED in self._of(optimizer) and self._is_untouched(optimizer):
            self._note("applied_scaled")
        if scaler is None:
            self._note_by_hand([optimizer])
        # Others may have used what is left of them; they count where they are still there in the next step.
        if KEPT in self._of(optimizer):
            self._note("kept")

    def stepped(self, optimizer: Any, skipped: bool) -> None:
        """Its step is over; what is left in its gradients was used."""
        self._carried[optimizer] = set() if skipped else {APPLIED}
        self._left[optimizer] = _versions(optimizer)

    def summary(self) -> Dict[str, Any]:
        """How often each kind of mistake was seen, how often none, and how many gradients were cleared unused."""
        return {"wrong": self.wrong, "right": self.right, "thrown": self.thrown}

    def _note(self, kind: str) -> None:
        self.wrong[kind] = self.wrong.get(kind, 0) + 1


def _versions(optimizer: Any) -> Versions:
    return [None if p.grad is None else (id(p.grad), p.grad._version) for p in parameters_of(optimizer)]


def _weights(optimizer: Any) -> List[int]:
    return [p._version for p in parameters_of(optimizer)]


def _is_clear(optimizer: Any) -> bool:
    """No gradient is left, or a few of them, spread over all, are 0."""
    held = [values_of(p.grad) for p in parameters_of(optimizer) if p.grad is not None]
    held = [grad for grad in held if grad.numel()]
    return not any(bool(grad.count_nonzero()) for grad in held[:: max(1, len(held) // FEW)])
