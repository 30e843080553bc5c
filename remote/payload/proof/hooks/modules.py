"""Hooks on the modules of a root for its first forward passes: largest output and autocast state of each."""

from __future__ import annotations

import math
import sys
from typing import Any, Callable, Dict, List, Optional

from .autocast import autocast_dtype
from .tensors import clean_name, local, short

MEASURED_FORWARDS = 2
MAX_MODULES = 8192
TOP = 10


class ModuleMeasure:
    """Keeps, by module name in the order of the forward pass, the largest absolute output seen, on the device."""

    def __init__(self) -> None:
        self.largest: Dict[str, Any] = {}
        self.dtypes: Dict[str, str] = {}
        self.autocast: Dict[str, int] = {}
        self.without_autocast: List[str] = []
        self.compiled = False
        self._forwards: Dict[int, int] = {}
        self._handles: Dict[int, List[Any]] = {}

    def begin(self, root: Any) -> None:
        """One more forward pass of `root` begins: the first of them are measured, later ones cost nothing."""
        seen = self._forwards.get(id(root), 0)
        self._forwards[id(root)] = seen + 1
        if type(root).__name__ == "OptimizedModule":
            self.compiled = True
            return
        if seen == 0:
            self._handles[id(root)] = self._attach(root)
        elif seen == MEASURED_FORWARDS:
            for handle in self._handles.pop(id(root), []):
                handle.remove()

    def _attach(self, root: Any) -> List[Any]:
        handles = []
        for name, module in list(root.named_modules())[:MAX_MODULES]:
            leaf = next(module.children(), None) is None
            handles.append(module.register_forward_hook(self._hook(clean_name(name) or "(whole model)", leaf)))
        return handles

    def _hook(self, name: str, leaf: bool) -> Callable[[Any, Any, Any], None]:
        def hook(module: Any, args: Any, output: Any) -> None:
            try:
                self._measure(name, leaf, module, output)
            except Exception:  # noqa: BLE001 - an output we cannot measure is not the user's fault
                self.dtypes.setdefault(name, "unknown")

        return hook

    def _measure(self, name: str, leaf: bool, module: Any, output: Any) -> None:
        torch = sys.modules["torch"]
        tensor = first_float(output)
        if tensor is None or not tensor.numel():
            return
        if leaf and next(module.parameters(recurse=False), None) is not None:
            state = autocast_dtype(tensor.device.type) or "off"
            self.autocast[state] = self.autocast.get(state, 0) + 1
            if state == "off" and len(self.without_autocast) < 5 and name not in self.without_autocast:
                self.without_autocast.append(name)
        # The norm reads the tensor once and makes no copy of it, as abs() would.
        largest = torch.linalg.vector_norm(local(tensor), float("inf")).float()
        known = self.largest.get(name)
        self.largest[name] = largest if known is None else torch.maximum(known, largest)
        self.dtypes[name] = short(tensor.dtype)

    def summary(self) -> Dict[str, Any]:
        """The ten largest, the first that is not finite, and how often autocast was on."""
        names = list(self.largest)
        values = [float(self.largest[name]) for name in names]
        finite = [(value, name) for name, value in zip(names, values) if math.isfinite(value)]
        bad = [name for name, value in zip(names, values) if not math.isfinite(value)]
        top = sorted((row for row in finite if self.dtypes[row[1]] == "float16"), reverse=True)[:TOP]
        return {
            "modules": len(names),
            "compiled": self.compiled,
            "largest": [[name, value] for value, name in top],
            "nonfinite": bad[:TOP],
            "autocast": self.autocast,
            "without_autocast": self.without_autocast,
        }


def first_float(output: Any) -> Optional[Any]:
    """The tensor that matters in what a module returned: itself, `logits`, or the first of a tuple, list or mapping."""
    torch = sys.modules["torch"]
    if isinstance(output, torch.Tensor):
        return output if output.is_floating_point() else None
    if isinstance(output, dict):
        output = [output["logits"]] if output.get("logits") is not None else list(output.values())
    if isinstance(output, (tuple, list)):
        return next((item for item in output if isinstance(item, torch.Tensor) and item.is_floating_point()), None)
    return None
