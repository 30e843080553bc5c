"""Cast parameters and add autocast as the precision plan requires. Tied parameters are cast together."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

from .autocast import autocast_dtype
from .foreign import named_buffers, named_modules, named_parameters, parameters_in
from .patching import Handles
from .runtime import CHANGES, RuntimePlan
from .tensors import dtype_name, parameters_of

HALF = ("float16", "bfloat16")
LARGEST_FLOAT16 = 65504.0


class Weights:
    """Casts the trained and frozen parameters of models, and runs a model under autocast if the command does not."""

    def __init__(self, plan: RuntimePlan) -> None:
        self.plan = plan
        self._adds_autocast = False
        self._optimizers: Any = weakref.WeakSet()
        self._hooks = Handles()
        self._prepared: Set[int] = set()
        self._depth = 0
        self._context: Optional[Any] = None

    @property
    def optimizers(self) -> List[Any]:
        """The optimizers that were created and still exist."""
        return list(self._optimizers)

    def hold(self, optimizer: Any) -> None:
        """Record an optimizer. The parameters of the optimizer stay in float32 from now on."""
        self._optimizers.add(optimizer)

    def prepare(self, parameters: Iterable[Any], owner: str) -> None:
        """Cast the trained parameters to float32, and other parameters as planned, before `owner` is created."""
        torch = sys.modules["torch"]
        given = [p for p in parameters if isinstance(p, torch.Tensor) and p.requires_grad]
        if any(_is_sharded(p) for p in given):
            CHANGES.announce(f"sharded parameters keep their dtype: FSDP's mixed precision decides it{CHANGES.at()}")
            return
        half = [p for p in given if _is_half(p)]
        if half:
            kinds = " and ".join(sorted({dtype_name(p.dtype) for p in half}))
            _cast_together(half, torch.float32)
            CHANGES.announce(
                f"cast {len(half)} trained tensors from {kinds} to float32 before {owner} was made{CHANGES.at()}"
            )
        if half or not {id(p) for p in given} <= self._prepared:
            self._prepare_models(given, changed=bool(half))

    def _prepare_models(self, trained: List[Any], *, changed: bool) -> None:
        """Cast the frozen parameters of the models that own the `trained` parameters.

        `changed`: whether trained parameters were cast.
        """
        self._prepared |= {id(p) for p in trained}
        models = _models_of(trained)
        if self._cast_frozen(models) or changed:
            self._flatten(models)
            self._add_autocast(trained[0].device.type)

    def _cast_frozen(self, models: List[Any]) -> bool:
        """Cast frozen bfloat16 parameters and buffers to float16 on a card that only emulates bfloat16."""
        torch = sys.modules["torch"]
        if self.plan.frozen != "float16":
            return False
        named = [row for model in models for row in (*named_parameters(model), *named_buffers(model))]
        frozen = [(name, p) for name, p in named if p.dtype == torch.bfloat16 and not p.requires_grad]
        wide = [name for name, p in frozen if p.numel() and float(p.detach().abs().max()) > LARGEST_FLOAT16]
        _cast_together([p for name, p in frozen if name not in wide], torch.float16)
        if wide:
            CHANGES.announce(
                f"left {len(wide)} frozen tensors in bfloat16, which float16 cannot hold, such as {wide[0]}"
            )
        if len(frozen) > len(wide):
            CHANGES.announce(f"cast {len(frozen) - len(wide)} frozen tensors from bfloat16 to float16")
        return len(frozen) > len(wide)

    def _flatten(self, models: List[Any]) -> None:
        for model in models:
            for _, module in named_modules(model):
                # Recurrent layers need their weights in one block of memory.
                if hasattr(module, "flatten_parameters"):
                    module.flatten_parameters()

    def after_cast(self, module: Any) -> None:
        """Undo a cast of trained parameters to half precision that was made after their optimizer was created."""
        held = {id(p) for optimizer in self.optimizers for p in parameters_of(optimizer)}
        back = [p for p in parameters_in(module) if id(p) in held and p.requires_grad and _is_half(p)]
        if back and not any(_is_sharded(p) for p in back):
            _cast_together(back, sys.modules["torch"].float32)
            CHANGES.announce(f"undid a cast of {len(back)} trained tensors to half precision{CHANGES.at()}")

    def _add_autocast(self, device: str) -> None:
        """Compute every model under autocast from now on, if the command has no autocast of its own."""
        modules = sys.modules["torch.nn.modules.module"]
        if self._adds_autocast or not self.plan.autocast:
            return
        self._adds_autocast = True

        def before(module: Any, args: Any) -> None:
            self._depth += 1
            if self._depth == 1 and autocast_dtype(device) is None and _has_parameters(module):
                torch = sys.modules["torch"]
                CHANGES.announce(
                    f"compute {type(module).__name__} under autocast in {self.plan.autocast}{CHANGES.at()}"
                )
                self._context = torch.autocast(device, getattr(torch, self.plan.autocast))
                self._context.__enter__()

        def after(module: Any, args: Any, output: Any) -> None:
            self._depth -= 1
            if self._depth == 0 and self._context is not None:
                context, self._context = self._context, None
                context.__exit__(None, None, None)

        self._hooks.renew(
            modules.register_module_forward_pre_hook(before),
            modules.register_module_forward_hook(after, always_call=True),
        )


def _is_half(tensor: Any) -> bool:
    return dtype_name(tensor.dtype) in HALF


def _is_sharded(tensor: Any) -> bool:
    return hasattr(tensor, "to_local") or type(tensor).__name__ == "FlatParameter" or hasattr(tensor, "_sharded_size")


def _has_parameters(module: Any) -> bool:
    return bool(parameters_in(module))


def _cast_together(parameters: List[Any], dtype: Any) -> None:
    """Cast parameters in place.

    Parameters that share memory still share it afterwards, even with parameters that are not in the list.
    """
    torch = sys.modules["torch"]
    if not parameters:
        return
    given = {id(p) for p in parameters}
    memory: Dict[Tuple[Any, ...], List[Any]] = {}
    for parameter in parameters:
        memory.setdefault(_memory(parameter), []).append(parameter)
    for other in [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Parameter)]:
        if id(other) not in given and other.device.type != "meta" and _memory(other) in memory:
            memory[_memory(other)].append(other)
    for tied in memory.values():
        values = tied[0].data.to(dtype)
        for parameter in tied:
            gradient, parameter.grad = parameter.grad, None
            parameter.data = values
            parameter.grad = None if gradient is None else gradient.to(dtype)


def _memory(tensor: Any) -> Tuple[Any, ...]:
    start = tensor.data_ptr() if tensor.numel() else id(tensor)
    return (tensor.device, tensor.dtype, start, tuple(tensor.shape), tensor.stride())


def _models_of(parameters: List[Any]) -> List[Any]:
    """Return the outermost modules that hold any of these parameters."""
    torch = sys.modules["torch"]
    held = {id(p) for p in parameters}
    modules = [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module)]
    children = {id(child) for one in modules for child in vars(one).get("_modules", {}).values()}
    outer = [one for one in modules if id(one) not in children and "_modules" in vars(one)]
    return [one for one in outer if any(id(p) in held for p in parameters_in(one))]
