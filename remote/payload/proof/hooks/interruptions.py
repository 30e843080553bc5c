"""Detect state that an evaluation or a checkpoint changed: the mode, the trained set, dtypes or weights."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from .eval_mode import affected_layers
from .foreign import parameters_in
from .monitor import Anomaly
from .rules import adapter_is_idle
from .tensors import dtype_name, living_names, local

STEPS = 4
SUDDEN = 4.0
TENSORS = 16
SAMPLE = 1024
ROUNDING = 1e-5
MOST = 0.5
HALF = ("float16", "bfloat16")


class Interruptions:
    """Compares the trained tensors and the model's mode before and after each interruption.

    Only the module with most trained weights has its mode compared, because frozen encoders may stay in eval mode.
    """

    def __init__(self) -> None:
        self._cause = ""
        self._left = 0
        self._compare = False
        self._measured = 0
        self._with_gradient: Set[int] = set()
        self._rate: Optional[float] = None
        self._evaluated: Optional[Any] = None
        self._trained: Dict[int, str] = {}
        self._samples: List[Any] = []
        self._reported: Set[str] = set()

    @property
    def watching(self) -> bool:
        """True in the first steps after an interruption."""
        return self._left > 0

    def evaluated(self, module: Any) -> None:
        """Record that a module was switched from training to eval mode."""
        self._note("evaluation")
        self._evaluated = weakref.ref(module)

    def saved(self) -> None:
        """Record that a file was saved."""
        self._note("checkpoint")

    def _note(self, cause: str) -> None:
        # Before the first step there is nothing to compare with.
        if not self._trained:
            return
        self._compare = True
        if not self._left:
            self._cause, self._left, self._measured, self._with_gradient = cause, STEPS, 0, set()

    def before_step(self, parameters: List[Any], step: int, untouched: Set[int]) -> List[Anomaly]:
        """Return an anomaly for each change that remains after the last interruption. Call it before a step.

        `untouched` contains the ids of the tensors that never got a gradient.
        """
        if not self.watching:
            return []
        anomalies = self._changed(parameters, step)
        if self._left == 1:
            anomalies += [*self._not_restored(parameters, step, untouched), *self._idle(parameters, step, untouched)]
        self._left -= 1
        fresh = [one for one in anomalies if one.check not in self._reported]
        self._reported.update(one.check for one in fresh)
        return fresh

    def after_step(self, parameters: List[Any], rate: Optional[float]) -> None:
        """Keep a sample of the weights after the step. A sudden change of the learning rate is an interruption too."""
        if self._rate and rate is not None and not self._rate / SUDDEN < rate < self._rate * SUDDEN:
            self._note("change of the learning rate")
        self._rate = rate
        if not self._trained:
            self._trained = {id(p): dtype_name(p.dtype) for p in parameters if p.requires_grad}
        self._samples = [_sample(p) for p in self._sampled(parameters)]

    def note_gradients(self, with_gradient: Set[int]) -> None:
        """Record which tensors have a gradient in a step after an interruption, by id."""
        self._measured += 1
        self._with_gradient |= with_gradient

    def _trained_among(self, parameters: List[Any]) -> List[Any]:
        return [p for p in parameters if id(p) in self._trained]

    def _sampled(self, parameters: List[Any]) -> List[Any]:
        known = self._trained_among(parameters)
        return known[:: max(1, len(known) // TENSORS)][:TENSORS]

    def _changed(self, parameters: List[Any], step: int) -> List[Anomaly]:
        if not self._compare:
            return []
        self._compare = False
        changed = sum(_differ(before, _sample(now)) for before, now in zip(self._samples, self._sampled(parameters)))
        if not changed:
            return []
        of = f"{changed} of {len(self._samples)} compared trained tensors"
        return [
            _warning("weights-between", f"{of} differ from their values before the {self._cause} at step {step}", step)
        ]

    def _not_restored(self, parameters: List[Any], step: int, untouched: Set[int]) -> List[Anomaly]:
        """Return warnings about state that is not restored. A script may need a step or two to restore everything."""
        warnings = []
        since = self._since(step)
        module = self._evaluated() if self._evaluated is not None else None
        # A frozen module that runs without gradients stays in eval mode on purpose.
        trained = [p for p in parameters if p.requires_grad and id(p) not in untouched]
        if module is not None and not module.training and trained and _holds(module, trained) and _differs(module):
            message = f"{type(module).__name__} is still in eval mode {STEPS} steps after the {self._cause}"
            warnings.append(_warning("train-mode", message, step))
        known = self._trained_among(parameters)
        frozen = sum(not p.requires_grad for p in known)
        if frozen:
            message = f"{frozen} of {len(known)} trained tensors no longer require gradients {since}"
            warnings.append(_warning("trainable-set", message, step))
        cast = sum(self._trained[id(p)] == "float32" and dtype_name(p.dtype) in HALF for p in known)
        if cast:
            message = f"{cast} of {len(known)} trained tensors are in half precision {since}"
            warnings.append(_warning("trainable-dtype", message, step))
        return warnings

    def _idle(self, parameters: List[Any], step: int, untouched: Set[int]) -> List[Anomaly]:
        """Return a warning about tensors without gradients. Experts that get no token have no gradient by design."""
        trained = {id(p): p for p in self._trained_among(parameters) if p.requires_grad and p.numel()}
        idle = trained.keys() - self._with_gradient - untouched
        if self._measured < 2 or 2 * len(idle) < len(trained):
            return []
        names = living_names(trained)
        if not adapter_is_idle(names, idle):
            return []
        tensors = "tensor" if len(idle) == 1 else "tensors"
        message = f"{len(idle)} trained {tensors} got no gradient {self._since(step)}: {min(names[k] for k in idle)}"
        return [_warning("adapter-gradient", message, step)]

    def _since(self, step: int) -> str:
        return f"since the {self._cause} {STEPS} steps before step {step}"


def patch_interruptions(torch: Any, current: Callable[[], Optional[Interruptions]]) -> List[Tuple[Any, str, Any]]:
    """Return the patches as (owner, name, wrapper)."""
    depth = [0]

    def train(original: Any) -> Any:
        def training(self: Any, mode: bool = True) -> Any:
            interruptions = current()
            if not depth[0] and not mode and self.training and interruptions is not None:
                interruptions.evaluated(self)
            depth[0] += 1
            try:
                return original(self, mode)
            finally:
                depth[0] -= 1

        return training

    def save(original: Any) -> Any:
        def saving(*args: Any, **kwargs: Any) -> Any:
            interruptions = current()
            if interruptions is not None:
                interruptions.saved()
            return original(*args, **kwargs)

        return saving

    return [(torch.nn.Module, "train", train), (torch, "save", save)]


def _sample(parameter: Any) -> Any:
    values = local(parameter).reshape(-1)
    return values[:: max(1, values.numel() // SAMPLE)][:SAMPLE].clone()


def _differ(before: Any, after: Any) -> bool:
    if before.shape != after.shape:
        return True
    gap = (before.float() - after.float()).abs().sum()
    return bool(gap > ROUNDING * before.float().abs().sum())


def _differs(module: Any) -> bool:
    """Return True if eval mode changes what the module computes."""
    return next(affected_layers(module), None) is not None


def _holds(module: Any, parameters: List[Any]) -> bool:
    """Return True if the module contains most of the trained weights."""
    inside = {id(p) for p in parameters_in(module)}
    held_elements = sum(p.numel() for p in parameters if id(p) in inside)
    return bool(held_elements > MOST * sum(p.numel() for p in parameters))


def _warning(check: str, message: str, step: int) -> Anomaly:
    return Anomaly(check, "warning", message, step)
