"""Record the called models, the optimizers that step, and the gradients and changes of each trained tensor."""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Optional, Set, Tuple

from .averages import Averages
from .changes import Changes
from .foreign import named_parameters
from .parts import Parts
from .report import Device, ModelTables, TrainedTensors
from .tables import describe, state_dtypes
from .tensors import (
    dtype_name,
    fingerprint,
    measure_gradients,
    moved,
    name_parameters,
    name_uncalled,
    nonfinite,
    parameters_of,
    trained_by,
)
from .tied import find_untied
from .weights_report import ChangedBetween, HalfAverage

IDLE = ("none", "zero")


class Trained:
    """The trained tensors. `main` is the optimizer with the most weights.

    `gradients` maps the name of each tensor to the state of its gradient in each step.
    """

    def __init__(self) -> None:
        self.roots: List[Any] = []
        self.main: Optional[Any] = None
        self.gradients: Dict[str, List[str]] = {}
        self.tables: Optional[ModelTables] = None
        self.put_back = 0
        self._built: Any = weakref.WeakSet()
        self._has_moved: Set[int] = set()
        self._optimizers: Dict[int, Any] = {}
        self._waiting: List[Any] = []
        self._built_as: Dict[int, Dict[int, str]] = {}
        self._before: Dict[str, Tuple[Any, Any]] = {}
        self._changes = Changes()
        self.averages = Averages()
        self._unheld_before: Dict[str, Tuple[Any, Any]] = {}
        self._uncalled: Dict[int, str] = {}

    @property
    def device(self) -> Device:
        """The device of the models, or the CPU if they could not be described."""
        return self.tables.device if self.tables is not None else Device("cpu")

    @property
    def optimizers(self) -> List[Any]:
        """The optimizers that have attempted a step."""
        return list(self._optimizers.values())

    def built(self, optimizer: Any) -> None:
        """Record the dtypes of an optimizer's parameters when it is built."""
        self._built.add(optimizer)
        self._built_as[id(optimizer)] = {id(p): dtype_name(p.dtype) for p in parameters_of(optimizer)}

    def add_root(self, root: Any) -> bool:
        """Record a model that is called. Return True at the model's first call."""
        self.averages.before_forward()
        if any(root is known for known in self.roots):
            return False
        self.roots.append(root)
        return True

    def has(self, optimizer: Any) -> bool:
        """Return True if the optimizer was described before its first step."""
        return id(optimizer) in self._optimizers

    def add(self, optimizer: Any) -> None:
        """Describe an optimizer before its first step.

        A step with a closure begins before any model was called, so its optimizer is described when backward begins.
        """
        if self.has(optimizer):
            return
        if not self.roots:
            self._waiting.append(optimizer)
            return
        self._optimizers[id(optimizer)] = optimizer
        self.main = max(self.optimizers, key=lambda one: sum(p.numel() for p in parameters_of(one)))
        called = name_parameters(self.roots)
        strays = {id(p): p for one in self.optimizers for p in parameters_of(one) if id(p) not in called}
        self._uncalled = name_uncalled(strays) if strays else {}
        self.tables = self._describe()
        self._before.update(fingerprint(self.named(optimizer)))
        self.averages.begin(self.named(optimizer))
        self._unheld_before = fingerprint(self._unheld())

    def add_waiting(self) -> None:
        """Describe the optimizers whose step began before any model was called."""
        self.averages.before_forward()
        waiting, self._waiting = self._waiting, []
        for optimizer in waiting:
            self.add(optimizer)

    def after_step(self, optimizer: Any) -> None:
        """Record directly after a step whether the weights differ from the initial weights."""
        prints = fingerprint(self.named(optimizer))
        self._changes.after_step(optimizer, prints)
        self.averages.after_step()
        if self._differs(prints):
            self._has_moved.add(id(optimizer))

    def has_moved(self, optimizer: Any) -> bool:
        """Return True if a step of this optimizer changed its weights."""
        return id(optimizer) in self._has_moved

    def before_step(self, optimizer: Any) -> None:
        """Record whether the weights changed after the last step, and whether the changes of that step were undone."""
        if id(optimizer) not in self._has_moved:
            return
        self.averages.look()
        prints = fingerprint(self.named(optimizer))
        self._changes.before_step(optimizer, prints)
        if not self._differs(prints):
            self.put_back += 1
            self._has_moved.discard(id(optimizer))

    def _differs(self, prints: Dict[str, Tuple[Any, Any]]) -> bool:
        return any(moved(self._before, prints).values())

    def _unheld(self) -> List[Tuple[str, Any]]:
        """Return trainable parameters that no optimizer holds.

        They may be half-precision copies of parameters that an optimizer holds.
        """
        held = {id(p) for one in self.optimizers for p in parameters_of(one)}
        named = [(name, p) for root in self.roots for name, p in named_parameters(root)]
        return [(name, p) for name, p in named if p.requires_grad and id(p) not in held]

    def named(self, optimizer: Any) -> List[Tuple[str, Any]]:
        """Return the optimizer's trained parameters by name."""
        names = {**self._uncalled, **name_parameters(self.roots)}
        return [(names.get(id(p), f"(unnamed {at})"), p) for at, p in trained_by(optimizer)]

    def measure(self, optimizer: Any, *, again: bool = False) -> float:
        """Return the norm of the gradients that are about to be applied, and record the state of each gradient.

        If `again` is True, a closure has recomputed the gradients within the same step.
        """
        states, norm = measure_gradients(self.named(optimizer))
        for name, state in states.items():
            rows = self.gradients.setdefault(name, [])
            if again and rows:
                rows.pop()
            rows.append(state)
        return norm

    @property
    def idle(self) -> bool:
        """True if gradients were measured and all gradients were missing or 0."""
        return bool(self.gradients) and all(state in IDLE for states in self.gradients.values() for state in states)

    def _describe(self) -> ModelTables:
        return describe(self.roots, self.optimizers, self._built_as, list(self._built), self._uncalled)

    def summary(self, parts: Parts) -> Tuple[ModelTables, TrainedTensors]:
        """Return the tables of models and optimizers from before the first step, and the changes since then."""
        model = parts.make("model", lambda: self.tables or self._describe(), ModelTables())
        return model, parts.make("trained", lambda: self._changes_of_weights(parts), TrainedTensors())

    def _average(self) -> HalfAverage:
        self.averages.look()
        return self.averages.summary()

    def _changes_of_weights(self, parts: Parts) -> TrainedTensors:
        average = parts.make("average", self._average, HalfAverage())
        after = fingerprint([row for one in self.optimizers for row in self.named(one)])
        has_moved = moved(self._before, after)
        return TrainedTensors(
            optimizers=tuple(sorted({type(one).__name__ for one in self.optimizers})),
            optimizer_state=state_dtypes(self.optimizers),
            gradients={name: tuple(states) for name, states in self.gradients.items()},
            moved=has_moved,
            put_back=self.put_back,
            nonfinite=tuple(sorted(set(nonfinite(after)) - set(nonfinite(self._before)))),
            weights_sum=sum(float(total) for _, total in after.values()),
            unoptimized_changed=any(moved(self._unheld_before, fingerprint(self._unheld())).values()),
            changed_between_steps=parts.make("changes", self._changes.summary, ChangedBetween()),
            untied=parts.make("untied", lambda: find_untied(self.roots, name_parameters(self.roots), has_moved), None),
            average=average,
        )
