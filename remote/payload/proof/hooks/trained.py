"""What is trained: the models that were called, the optimizers that step, the gradients and movement of each tensor."""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Optional, Set, Tuple

from .tables import describe, state_dtypes
from .tensors import mark, measure_gradients, moved, name_parameters, nonfinite, parameters_of, short, trained_by

IDLE = ("none", "zero")


class Trained:
    """`main` is the optimizer with the most weights; `gradients` has the state of each tensor's, step by step."""

    def __init__(self) -> None:
        self.roots: List[Any] = []
        self.main: Optional[Any] = None
        self.gradients: Dict[str, List[str]] = {}
        self.tables: Dict[str, Any] = {}
        self.put_back = 0
        self._built: Any = weakref.WeakSet()
        self._has_moved: Set[int] = set()
        self._optimizers: Dict[int, Any] = {}
        self._waiting: List[Any] = []
        self._built_as: Dict[int, Dict[int, str]] = {}
        self._marks: Dict[str, Tuple[Any, Any]] = {}
        self._copies: Dict[str, Tuple[Any, Any]] = {}

    @property
    def optimizers(self) -> List[Any]:
        """Those that have tried a step."""
        return list(self._optimizers.values())

    def built(self, optimizer: Any) -> None:
        """Its parameters' dtypes, as they were when it was made over them."""
        self._built.add(optimizer)
        self._built_as[id(optimizer)] = {id(p): short(p.dtype) for p in parameters_of(optimizer)}

    def is_new(self, root: Any) -> bool:
        """Whether this model is called for the first time; it is known from now on."""
        if any(root is known for known in self.roots):
            return False
        self.roots.append(root)
        return True

    def knows(self, optimizer: Any) -> bool:
        """It was looked at before its first change."""
        return id(optimizer) in self._optimizers

    def look(self, optimizer: Any) -> None:
        """Names, dtypes and marks, before the first change of this optimizer.

        Where a closure computes the loss, a step begins before any model was called: then when backward begins.
        """
        if self.knows(optimizer):
            return
        if not self.roots:
            self._waiting.append(optimizer)
            return
        self._optimizers[id(optimizer)] = optimizer
        self.main = max(self.optimizers, key=lambda one: sum(p.numel() for p in parameters_of(one)))
        self.tables = self._describe()
        self._marks.update(mark(self.named(optimizer)))
        self._copies = mark(self._unheld())

    def look_behind(self, optimizer: Any) -> None:
        """Right behind a change that this optimizer made."""
        if self._differs(optimizer):
            self._has_moved.add(id(optimizer))

    def has_moved(self, optimizer: Any) -> bool:
        """One of its changes was seen to be one."""
        return id(optimizer) in self._has_moved

    def look_again(self, optimizer: Any) -> None:
        """Before a later change of the same optimizer: whether what an earlier one changed was put back."""
        if id(optimizer) in self._has_moved and not self._differs(optimizer):
            self.put_back += 1
            self._has_moved.discard(id(optimizer))

    def _differs(self, optimizer: Any) -> bool:
        return any(moved(self._marks, mark(self.named(optimizer))).values())

    def _unheld(self) -> List[Tuple[str, Any]]:
        """What the models train and no optimizer holds: it may be a copy of what one does."""
        held = {id(p) for one in self.optimizers for p in parameters_of(one)}
        named = [(name, p) for root in self.roots for name, p in root.named_parameters()]
        return [(name, p) for name, p in named if p.requires_grad and id(p) not in held]

    def look_late(self) -> None:
        """Those that began their step before there was a model."""
        waiting, self._waiting = self._waiting, []
        for optimizer in waiting:
            self.look(optimizer)

    def named(self, optimizer: Any) -> List[Tuple[str, Any]]:
        names = name_parameters(self.roots)
        return [(names.get(id(p), f"(unnamed {at})"), p) for at, p in trained_by(optimizer)]

    def measure(self, optimizer: Any, *, again: bool = False) -> float:
        """The norm of the gradients that it is about to apply; the state of each is kept.

        `again`: a closure has computed them anew within the step that they were measured before.
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
        """Gradients were looked at, and none of any tensor was ever above 0."""
        return bool(self.gradients) and all(state in IDLE for states in self.gradients.values() for state in states)

    def _describe(self) -> Dict[str, Any]:
        return describe(self.roots, self.optimizers, self._built_as, list(self._built))

    def summary(self) -> Dict[str, Any]:
        """The tables as they were before the first change, and what has changed since."""
        after = mark([row for one in self.optimizers for row in self.named(one)])
        return {
            **(self.tables or self._describe()),
            "optimizer_state": state_dtypes(self.optimizers),
            "optimizers": sorted({type(one).__name__ for one in self.optimizers}),
            "gradients": self.gradients,
            "moved": moved(self._marks, after),
            "put_back": self.put_back,
            "spoiled": sorted(set(nonfinite(after)) - set(nonfinite(self._marks))),
            "weights_sum": sum(float(total) for _, total in after.values()),
            "copies_moved": any(moved(self._copies, mark(self._unheld())).values()),
        }
