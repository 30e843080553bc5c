"""Find layers of a trained model that behave differently because the model is in eval mode."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from .foreign import named_modules, parameters_in

DROPOUT = "dropout"


class EvalMode:
    """Looks for such layers in the root modules that are called in eval mode.

    A layer counts if it belongs to trained weights, or if gradients flow through it. A frozen encoder that runs without
    gradients stays in eval mode on purpose. So does a model without trained weights, such as a reference model.
    """

    def __init__(self, found: Callable[[str, str], None]) -> None:
        self._found = found
        self._handles: Dict[int, List[Any]] = {}

    def begin(self, root: Any) -> None:
        """Call `found` with the class of the root and the effect of eval mode, which is "" until one is found."""
        if root.training or id(root) in self._handles or not _trains(root):
            return
        name = type(root).__name__
        handles = self._handles[id(root)] = []
        self._found(name, "")
        for layer, effect, belongs in affected_layers(root):
            if belongs:
                self._found(name, effect)
            elif type(root).__name__ != "OptimizedModule":
                # Inside of a compiled model, a hook would change what is compiled.
                handles.append(layer.register_forward_hook(self._hook(name, effect)))

    def release(self) -> None:
        """Remove all hooks."""
        for handles in self._handles.values():
            while handles:
                handles.pop().remove()

    def _hook(self, name: str, effect: str) -> Callable[[Any, Any, Any], None]:
        def hook(module: Any, args: Any, output: Any) -> None:
            first = output[0] if isinstance(output, (tuple, list)) and output else output
            if not module.training and getattr(first, "requires_grad", False) is True:
                self._found(name, effect)

        return hook


def affected_layers(root: Any) -> Iterator[Tuple[Any, str, bool]]:
    """Yield (layer, effect, whether it belongs to trained weights) for each layer that eval mode changes.

    A layer belongs to trained weights if the innermost module around it that has weights trains some of them.
    """
    by_name = dict(named_modules(root))
    for name, module in by_name.items():
        effect = None if module.training else _effect(module)
        if effect is not None:
            yield module, effect, _belongs(name, by_name)


def _belongs(name: str, by_name: Dict[str, Any]) -> bool:
    while name and not parameters_in(by_name.get(name)):
        name = name.rpartition(".")[0]
    return _trains(by_name.get(name))


def _trains(module: Any) -> bool:
    return any(parameter.requires_grad for parameter in parameters_in(module))


def _effect(module: Any) -> Optional[str]:
    """Return how the layer itself behaves differently in eval mode: without dropout, or by another computation."""
    nn = sys.modules["torch"].nn
    if isinstance(module, nn.modules.batchnorm._NormBase):
        return type(module).__name__ if module.track_running_stats else None
    if isinstance(module, nn.RReLU):
        return type(module).__name__
    # Recurrent layers, attention layers and models that call F.dropout keep the probability in an attribute.
    rates = [value for key, value in vars(module).items() if "drop" in key.lower() and type(value) in (int, float)]
    is_dropout = isinstance(module, nn.modules.dropout._DropoutNd)
    rates += [module.p] if is_dropout and type(module.p) in (int, float) else []
    return DROPOUT if any(0 < rate <= 1 for rate in rates) else None
