"""A loss scale around plain `backward` and `step` calls. Gradients are unscaled as soon as backward is over.

Code between backward and step (clipping, norms, accumulation, averaging over ranks) therefore works on unscaled
gradients. A scale is a power of two, so multiplying and dividing by it changes no finite value of a float32 gradient.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

from .patching import Training
from .recorder import Recorder
from .report import write_json
from .runtime import CHANGES, RuntimePlan
from .runtime_weights import Weights
from .tensors import dtype_name, parameters_of, values_of

ENGINES = ("deepspeed", "apex", "colossalai", "fairscale")
STATE = "runtime-scale.json"
LOWEST = 2.0**-14
GROWTH_INTERVAL = 2000
"""The number of steps without overflow after which `torch.amp.GradScaler` doubles its scale by default."""


class LossScaling:
    """Scales the loss under float16 autocast if no other code in the process scales it. Skips steps that overflow."""

    def __init__(self, plan: RuntimePlan, weights: Weights) -> None:
        self.plan = plan
        self.scale = plan.init_scale
        self.float16_autocast = False
        self.script_scaler = False
        self._weights = weights
        self._good = 0
        self._found: Optional[Any] = None
        self._scaled = self._stepped = self._in_step = False
        self._known = -1
        self._others = self._announced = False
        self._file = os.path.join(os.environ.get("HALFSTEP_RUN_DIR", ""), STATE)
        if os.environ.get("HALFSTEP_RESUME_FROM"):
            self._resume()

    def get_scale(self) -> float:
        return self.scale

    def is_enabled(self) -> bool:
        return True

    def applies(self) -> bool:
        """Return True if this process needs a loss scale and has no scaler, Accelerator, Trainer or engine."""
        optimizers = self._weights.optimizers
        if not (self.plan.scaler and self.float16_autocast and optimizers) or self.script_scaler:
            return False
        if getattr(getattr(sys.modules.get("accelerate.state"), "AcceleratorState", None), "_shared_state", None):
            return False
        kinds = [(type(one).__module__.partition(".")[0], type(one).__name__) for one in optimizers]
        held = [p for one in optimizers for p in parameters_of(one)]
        return not any(home in ENGINES or name == "LBFGS" for home, name in kinds) and not any(
            hasattr(p, "to_local") or type(p).__name__ == "FlatParameter" for p in held
        )

    def backward(self, original: Callable[..., Any], loss: Any, args: Any, kwargs: Any) -> Any:
        """Run backward from the scaled loss, then divide the changed gradients by the scale."""
        self._settle()
        if not self._announced:
            self._announced = True
            CHANGES.announce(
                f"scale the loss by {self.scale:g} at first, because no other code scales it{CHANGES.at()}"
            )
        leaves = self._leaves(loss)
        before = {id(p): _version(p) for p in leaves}
        _multiply([p.grad for p in leaves if p.grad is not None], self.scale)
        try:
            return original(loss.float() * self.scale, *args, **kwargs)
        finally:
            self._scaled = True
            present = [p for p in leaves if p.grad is not None]
            reached = [p.grad for p in present if _version(p) != before[id(p)]]
            _multiply([p.grad for p in present if _version(p) == before[id(p)]], 1.0 / self.scale)
            nonfinite = _unscale(reached, 1.0 / self.scale)
            self._found = nonfinite if self._found is None else self._found + nonfinite.to(self._found.device)

    def _leaves(self, loss: Any) -> List[Any]:
        """Return the optimizers' parameters, and other tensors that get gradients from this backward.

        The other tensors are half-precision copies that the command manages itself. If a search finds no such tensors,
        the next search is made only after the optimizers' parameters have changed.
        """
        optimizers = self._weights.optimizers
        held = {id(p): p for one in optimizers for p in parameters_of(one)}
        if self._known == len(held) and not self._others:
            return list(held.values())
        others = [one for one in _graph_leaves(loss) if id(one) not in held]
        self._known, self._others = len(held), bool(others)
        return [*held.values(), *others]

    def step(self, original: Callable[..., Any], optimizer: Any, args: Any, kwargs: Any, calls: StepCalls) -> Any:
        """Run the step, unless gradients overflowed."""
        if self._in_step:
            return original(optimizer, *args, **kwargs)
        self._in_step = True
        try:
            return self._step(original, optimizer, args, kwargs, calls)
        finally:
            self._in_step = False

    def _step(self, original: Callable[..., Any], optimizer: Any, args: Any, kwargs: Any, calls: StepCalls) -> Any:
        closure = args[0] if args else kwargs.get("closure")
        result = None
        if closure is not None and self.applies() and type(optimizer).__module__.startswith("torch.optim"):
            # These optimizers evaluate the closure once, before anything else.
            with sys.modules["torch"].enable_grad():
                self._in_step = False
                result = closure()
                self._in_step = True
            args, kwargs = (), {}
        if not self._scaled:
            return original(optimizer, *args, **kwargs)
        nonfinite = self._overflowed(optimizer)
        scale = self.scale
        calls.before(optimizer, self)
        if not nonfinite:
            applied = original(optimizer, *args, **kwargs)
            result = applied if closure is None else result
        self._stepped = True
        self._found = sys.modules["torch"].ones(1) if nonfinite else None
        calls.after(optimizer, self, scale, skipped=nonfinite)
        if len(self._weights.optimizers) == 1:
            self._settle()
            calls.updated(self)
        return result

    def inside_closure(self) -> bool:
        """True in a step that evaluates its closure itself, so that its gradients cannot be checked afterwards."""
        return self._in_step

    def _overflowed(self, optimizer: Any) -> bool:
        torch = sys.modules["torch"]
        if self._found is not None and float(self._found) > 0:
            return True
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        # The command may have averaged gradients over ranks since they were checked.
        grads = [p.grad for p in parameters_of(optimizer) if p.grad is not None] if distributed else []
        return bool(float(_unscale(grads, 1.0)) > 0)

    def _settle(self) -> None:
        """Adjust the scale after the gradients of the last backward passes were used or discarded."""
        dropped = self._scaled and not self._stepped and self._is_clear()
        if not (self._stepped or dropped):
            return
        if self._found is not None and float(self._found) > 0:
            self.scale, self._good = max(LOWEST, self.scale / 2), 0
            CHANGES.announce(f"skipped a step whose gradients overflowed; the loss scale is {self.scale:g}")
            self._save()
        elif self._stepped:
            self._good += 1
            if self._good >= GROWTH_INTERVAL:
                self.scale, self._good = self.scale * 2, 0
                self._save()
        self._found, self._scaled, self._stepped = None, False, False

    def _is_clear(self) -> bool:
        return all(p.grad is None for one in self._weights.optimizers for p in parameters_of(one))

    def _save(self) -> None:
        if os.environ.get("HALFSTEP_RUN_DIR") and os.environ.get("RANK", "0") == "0":
            write_json(self._file, {"scale": self.scale})

    def _resume(self) -> None:
        """Continue with the last scale of an earlier job of the run."""
        try:
            with open(self._file, encoding="utf-8") as file:
                self.scale = float(json.load(file)["scale"])
        except (OSError, ValueError, KeyError, TypeError):
            return
        CHANGES.announce(f"continue with the loss scale {self.scale:g} of the previous job")


class StepCalls:
    """The recorder's callbacks around a scaled step, in the order of a GradScaler's patches."""

    def __init__(self, recorder: Recorder, training: Training) -> None:
        self._recorder = recorder
        self._training = training

    def before(self, optimizer: Any, scaling: LossScaling) -> None:
        self._training.stepping, self._training.scaler_applied = optimizer, False
        if self._recorder.details is not None:
            self._recorder.details.scaling(scaling)
        self._recorder.attempt(optimizer, scaling)

    def after(self, optimizer: Any, scaling: LossScaling, scale: float, *, skipped: bool) -> None:
        self._training.stepping = None
        self._recorder.after_step(optimizer, scaling, scale, skipped=skipped)

    def updated(self, scaling: LossScaling) -> None:
        if self._recorder.details is not None:
            self._recorder.details.scale_updated(scaling)


def _version(parameter: Any) -> Optional[Tuple[int, int]]:
    return None if parameter.grad is None else (id(parameter.grad), parameter.grad._version)


def _grouped(grads: List[Any]) -> List[List[Any]]:
    """Return the gradients' `.data` by device and dtype. A change of `.data` does not increase a version counter."""
    groups: Dict[Tuple[Any, str], List[Any]] = {}
    for grad in grads:
        values = values_of(grad).data
        groups.setdefault((values.device, dtype_name(values.dtype)), []).append(values)
    return list(groups.values())


def _multiply(grads: List[Any], factor: float) -> None:
    for values in _grouped(grads):
        sys.modules["torch"]._foreach_mul_(values, factor)


def _unscale(grads: List[Any], factor: float) -> Any:
    """Multiply gradients in place and return a tensor that is above 0 if a gradient is not finite."""
    torch = sys.modules["torch"]
    total = torch.zeros(1)
    for values in _grouped(grads):
        nonfinite = torch.zeros(1, device=values[0].device)
        torch._amp_foreach_non_finite_check_and_unscale_(values, nonfinite, torch.full_like(nonfinite, factor))
        total = total.to(nonfinite.device) + nonfinite
    return total


def _graph_leaves(loss: Any) -> List[Any]:
    """Return every tensor that gets a gradient from backward of this loss, as far as its graph shows."""
    waiting, visited, leaves = [loss.grad_fn], set(), []
    while waiting:
        node = waiting.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        waiting += [earlier for earlier, _ in node.next_functions]
    return leaves
