"""Record the content of each optimizer's gradients when they are clipped, divided by the loss scale and applied."""

from __future__ import annotations

import math
import weakref
from enum import Enum, auto
from typing import Any, List, Optional, Set, Tuple

from .bounded import bound_of, has_hooks
from .loss_graph import Start
from .report import GradientFlow, Misuse
from .tensors import parameters_of, values_of

FEW = 8

Versions = List[Optional[Tuple[int, int]]]
Snapshot = List[Tuple[Any, Versions]]


class Content(Enum):
    """The content of an optimizer's gradients.

    KEPT: gradients of an earlier step that were not cleared before the next backward pass.
    """

    SCALED = auto()
    PLAIN = auto()
    BY_HAND = auto()
    UNSCALED = auto()
    APPLIED = auto()
    KEPT = auto()
    MIXED = auto()


ADDED = {Start.SCALED: Content.SCALED, Start.PLAIN: Content.PLAIN, Start.BY_HAND: Content.BY_HAND}


class FlowRecorder:
    """Records every Misuse of gradients.

    For each optimizer, the recorder tracks which kinds of losses the gradients come from, and whether the gradients
    were unscaled or applied. A backward pass that changes no gradient of an optimizer does not count for this
    optimizer.
    """

    def __init__(self) -> None:
        self._misuses: List[Misuse] = []
        self._unscaled = 0
        self._discarded = 0
        self._optimizers: Any = weakref.WeakSet()
        self._contents: Any = weakref.WeakKeyDictionary()
        self._recorded_versions: Any = weakref.WeakKeyDictionary()
        self._weights: Any = weakref.WeakKeyDictionary()
        self._before: Snapshot = []

    def built(self, optimizer: Any) -> None:
        """Start tracking this optimizer."""
        self._optimizers.add(optimizer)

    def before_backward(self) -> None:
        """Forget the content of gradients that were cleared since the last backward pass.

        Gradients that the script changed after the step (decayed or reset) are kept on purpose: adding new gradients to
        these gradients is not a misuse.
        """
        for optimizer in list(self._contents):
            if Content.APPLIED in self._contents[optimizer] and not self._is_untouched(optimizer):
                self._contents[optimizer].discard(Content.APPLIED)
            if _is_clear(optimizer):
                self._discarded += self._is_discarded(optimizer)
                del self._contents[optimizer]
        self._before = [(one, _versions(one)) for one in self._optimizers]

    def after_backward(self, start: Start) -> None:
        """Record the content that a backward pass from `start` added to gradients."""
        for optimizer, versions in self._before:
            if versions != _versions(optimizer):
                contents = self._contents_of(optimizer)
                if Content.APPLIED in contents:
                    contents.remove(Content.APPLIED)
                    contents.add(Content.KEPT)
                if start is Start.SCALED and Content.UNSCALED in contents:
                    contents.add(Content.MIXED)
                if start in ADDED:
                    contents.add(ADDED[start])
                self._recorded_versions[optimizer] = _versions(optimizer)
                self._weights[optimizer] = _weights(optimizer)
        self._before = []

    def _is_discarded(self, optimizer: Any) -> bool:
        """Return True if gradients of a backward pass were cleared before anything used them.

        With several optimizers this is allowed, because one optimizer may clear gradients from the loss of another.
        Clearing is also allowed if the weights changed after the backward pass: then other code may have used the
        gradients.
        """
        single = len(self._optimizers) == 1 and not self._is_untouched(optimizer)
        used = self._weights.get(optimizer) != _weights(optimizer)
        return single and not used and bool(self._contents[optimizer] & set(ADDED.values()))

    def _is_untouched(self, optimizer: Any) -> bool:
        """Return True if the optimizer's gradients are unchanged since a backward pass, a clipping or its own step."""
        return bool(self._recorded_versions.get(optimizer) == _versions(optimizer))

    def _contents_of(self, optimizer: Any) -> Set[Content]:
        contents: Set[Content] = self._contents.setdefault(optimizer, set())
        return contents

    def before_clipping(self, parameters: List[Any]) -> None:
        """Record that gradients of these parameters are about to be clipped."""
        owners = self._owners(parameters)
        if owners and all(self._contents_of(one) == {Content.APPLIED} and self._is_untouched(one) for one in owners):
            self._misuses.append(Misuse.CLIPPED_LATE)
        self._note_by_hand(owners)

    def after_clipping(self, parameters: List[Any], norm: Optional[float], limit: float, scale: float) -> None:
        """Record that gradients of these parameters were clipped. `norm` is None if it is unknown.

        For gradients that still contain the loss scale, a limit multiplied by the scale is right. A limit below the
        square root of the scale counts as not multiplied, since usual limits are about 1.
        """
        for optimizer in self._owners(parameters):
            if Content.SCALED in self._contents_of(optimizer) and (norm is None or math.isfinite(norm)):
                cut = norm is not None and limit < min(norm, math.sqrt(scale))
                self._misuses.append(Misuse.CLIPPED_SCALED if cut else Misuse.CLIPPED_WITH_SCALE)
            self._recorded_versions[optimizer] = _versions(optimizer)

    def _owners(self, parameters: List[Any]) -> List[Any]:
        given = {id(parameter) for parameter in parameters}
        return [one for one in self._optimizers if any(id(p) in given for p in parameters_of(one))]

    def _note_by_hand(self, optimizers: List[Any]) -> None:
        """Record gradients that are about to be used, but still contain the factor of a manually scaled loss."""
        for optimizer in optimizers:
            if Content.BY_HAND in self._contents_of(optimizer) and self._is_untouched(optimizer):
                self._contents_of(optimizer).discard(Content.BY_HAND)
                self._misuses.append(Misuse.MANUAL_SCALE_KEPT)

    def _note_mixed(self, optimizer: Any) -> None:
        if Content.MIXED in self._contents_of(optimizer) and self._is_untouched(optimizer):
            self._contents_of(optimizer).discard(Content.MIXED)
            self._misuses.append(Misuse.UNSCALED_TWICE)

    def _note_bounded(self, optimizer: Any, untouched: bool, scale: float) -> None:
        """Record gradients that a hook or the script limited by a constant that does not contain the loss scale."""
        parameters = parameters_of(optimizer)
        if Content.SCALED not in self._contents_of(optimizer) or (untouched and not has_hooks(parameters)):
            return
        if bound_of(parameters) < math.sqrt(scale):
            self._misuses.append(Misuse.BOUNDED_SCALED)

    def before_unscaling(self, optimizer: Any, scale: float) -> None:
        """Record that the scaler is about to divide this optimizer's gradients by its scale."""
        contents = self._contents_of(optimizer)
        untouched = self._is_untouched(optimizer)
        self._note_bounded(optimizer, untouched, scale)
        self._note_mixed(optimizer)
        if Content.SCALED in contents and Content.PLAIN in contents and untouched:
            self._misuses.append(Misuse.PARTLY_SCALED)
        elif Content.PLAIN in contents and untouched:
            self._misuses.append(Misuse.UNSCALED_PLAIN)
        elif Content.SCALED in contents:
            self._unscaled += 1
        contents -= {Content.SCALED, Content.PLAIN}
        contents.add(Content.UNSCALED)

    def before_step(self, optimizer: Any, scaler: Any) -> None:
        """Record that an optimizer is about to use its gradients. `scaler` is None if no scaler calls its step."""
        # Gradients that were changed since backward may have been divided by the scale.
        if scaler is None and Content.SCALED in self._contents_of(optimizer) and self._is_untouched(optimizer):
            self._misuses.append(Misuse.APPLIED_SCALED)
        if scaler is None:
            self._note_by_hand([optimizer])
        self._note_mixed(optimizer)
        # Gradients that a step left are a misuse only if the next step applies them: between the steps, other code may
        # use them.
        if Content.KEPT in self._contents_of(optimizer):
            self._misuses.append(Misuse.NOT_CLEARED)

    def after_step(self, optimizer: Any, skipped: bool) -> None:
        """Record that the optimizer's step is over, after which the remaining gradients count as used."""
        self._contents[optimizer] = set() if skipped else {Content.APPLIED}
        self._recorded_versions[optimizer] = _versions(optimizer)

    def summary(self) -> GradientFlow:
        return GradientFlow(tuple(dict.fromkeys(self._misuses)), self._unscaled, self._discarded)


def _versions(optimizer: Any) -> Versions:
    return [None if p.grad is None else (id(p.grad), p.grad._version) for p in parameters_of(optimizer)]


def _weights(optimizer: Any) -> List[int]:
    return [p._version for p in parameters_of(optimizer)]


def _is_clear(optimizer: Any) -> bool:
    """Return True if no gradient is left, or if all checked gradients are 0.

    Of many gradients, only every n-th is checked.
    """
    gradients = [values_of(p.grad) for p in parameters_of(optimizer) if p.grad is not None]
    gradients = [grad for grad in gradients if grad.numel()]
    return not any(bool(grad.count_nonzero()) for grad in gradients[:: max(1, len(gradients) // FEW)])
