"""Measure the largest output and the autocast state of each module in the first forward passes of a model."""

from __future__ import annotations

import math
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from .autocast import autocast_dtype
from .foreign import named_modules, parameters_in, read
from .report import ModuleOutputs
from .tensors import clean_name, dtype_name, local

MEASURED_FORWARDS = 2
MAX_MODULES = 8192
TOP = 10
WHOLE = "(whole model)"


class ModuleMeasure:
    """Keeps the largest absolute output by module name, in the order of the forward pass, on the device."""

    def __init__(self, note_output: Callable[..., None]) -> None:
        self._note_output = note_output
        self._largest: Dict[str, Any] = {}
        self._dtypes: Dict[str, str] = {}
        self._autocast: Set[str] = set()
        self._compiled = False
        self._owners: Dict[str, str] = {}
        self._called: Set[str] = set()
        self._forwards: Dict[int, int] = {}
        self._handles: Dict[int, List[Any]] = {}

    def begin(self, root: Any) -> None:
        """Record that a forward pass of `root` begins. The first passes are measured. Later passes have no overhead."""
        seen = self._forwards.get(id(root), 0)
        self._forwards[id(root)] = seen + 1
        if type(root).__name__ == "OptimizedModule":
            self._compiled = True
            return
        if seen == 0:
            self._handles[id(root)] = self._attach(root)
        elif seen == MEASURED_FORWARDS:
            for handle in self._handles.pop(id(root), []):
                handle.remove()

    def _attach(self, root: Any) -> List[Any]:
        handles = []
        for name, module in named_modules(root)[:MAX_MODULES]:
            leaf = not read(module, "_modules")
            handles.append(module.register_forward_hook(self._hook(clean_name(name) or WHOLE, leaf)))
        self._owners.update(_callable_owners(root))
        return handles

    def _hook(self, name: str, leaf: bool) -> Callable[[Any, Any, Any], None]:
        def hook(module: Any, args: Any, output: Any) -> None:
            self._called.add(name)
            try:
                self._measure(name, leaf, module, output)
            except Exception:  # noqa: BLE001 - an output that cannot be measured is not the user's fault
                self._dtypes.setdefault(name, "unknown")

        return hook

    def _measure(self, name: str, leaf: bool, module: Any, output: Any) -> None:
        torch = sys.modules["torch"]
        tensor = first_float(output)
        if tensor is None or not tensor.numel():
            return
        self._note_output(tensor, leaf=leaf)
        if leaf and any(p is not None for p in module._parameters.values()):
            self._autocast.add(autocast_dtype(tensor.device.type) or "off")
        # The norm reads the tensor once, without the copy that abs() would make.
        largest = torch.linalg.vector_norm(local(tensor), float("inf")).float()
        known = self._largest.get(name)
        self._largest[name] = largest if known is None else torch.maximum(known, largest)
        self._dtypes[name] = dtype_name(tensor.dtype)

    def summary(self) -> ModuleOutputs:
        """Return the largest float16 outputs, the first outputs that are not finite, and the states of autocast."""
        values = {name: float(largest) for name, largest in self._largest.items()}
        half = [(v, name) for name, v in values.items() if math.isfinite(v) and self._dtypes[name] == "float16"]
        return ModuleOutputs(
            modules=len(values),
            compiled=self._compiled,
            largest=tuple((name, value) for value, name in sorted(half, reverse=True)[:TOP]),
            nonfinite=tuple(name for name, value in values.items() if not math.isfinite(value))[:TOP],
            autocast=tuple(sorted(self._autocast)),
            uncalled=() if self._compiled else self._uncalled(),
        )

    def _uncalled(self) -> Tuple[str, ...]:
        rows = self._owners.items()
        return tuple(name for name, owner in rows if name not in self._called and owner in self._called)


def _callable_owners(root: Any) -> Iterator[Tuple[str, str]]:
    """Return (name, name of the module that should call it) for each module with trainable parameters.

    Lists and dicts of modules are never called, so the module that contains them should call their items.
    """
    nn = sys.modules["torch"].nn
    containers = {"": False}
    for name, module in named_modules(root)[1:MAX_MODULES]:
        containers[name] = isinstance(module, (nn.ModuleList, nn.ModuleDict))
        if containers[name] or not any(p.requires_grad for p in parameters_in(module)):
            continue
        owner = name.rpartition(".")[0]
        while containers.get(owner):
            owner = owner.rpartition(".")[0]
        yield clean_name(name), clean_name(owner) or WHOLE


def first_float(output: Any) -> Optional[Any]:
    """Return a module's output if it is a float tensor, otherwise its `logits` or its first float tensor, or None."""
    torch = sys.modules["torch"]
    if isinstance(output, torch.Tensor):
        return output if output.is_floating_point() else None
    if isinstance(output, dict):
        output = [output["logits"]] if output.get("logits") is not None else list(output.values())
    if isinstance(output, (tuple, list)):
        return next((item for item in output if isinstance(item, torch.Tensor) and item.is_floating_point()), None)
    return None
