"""Where loss scalers are opened: what they scale, divide by, step and update."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from .opening import Training, is_wanted, replace
from .recorder import Recorder
from .scaled import mark_scaled


def scaler_class(torch: Any) -> Any:
    """The class all loss scalers derive from: torch.amp's since 2.3, torch.cuda.amp's before."""
    return getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler


def scale_of(scaler: Any) -> Optional[float]:
    """The loss scale now; None for a scaler that is switched off or has not scaled anything."""
    if scaler is None or not scaler.is_enabled():
        return None
    return float(scaler.get_scale())


def watch_scaler(torch: Any, recorder: Recorder, training: Training) -> None:
    """Every class in use is opened when its first object is made: FSDP's scaler overrides half of the methods."""
    opened = set()
    wrappers = _scaler_wrappers(torch, recorder, training)

    def init(original: Any) -> Any:
        def build(self: Any, *args: Any, **kwargs: Any) -> None:
            for kind in type(self).__mro__:
                if kind not in opened and hasattr(kind, "get_scale"):
                    opened.add(kind)
                    for name in wrappers.keys() & vars(kind).keys():
                        replace(kind, name, wrappers[name])
            original(self, *args, **kwargs)
            recorder.asked("scaler", is_wanted(original, self, args, kwargs), self.is_enabled())

        return build

    replace(scaler_class(torch), "__init__", init)


def _scaler_wrappers(torch: Any, recorder: Recorder, training: Training) -> Dict[str, Callable[[Any], Any]]:
    def scale(original: Any) -> Any:
        def scaling(self: Any, outputs: Any) -> Any:
            result = original(self, outputs)
            if self.is_enabled():
                mark_scaled(result)
            if isinstance(outputs, torch.Tensor) and self.is_enabled():
                training.scaled_from, training.scaled_to = outputs, result
                recorder.scaled(self, outputs)
            return result

        return scaling

    def step(original: Any) -> Any:
        def stepping(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.is_enabled() or training.current is not None:
                return original(self, optimizer, *args, **kwargs)
            inner = getattr(optimizer, "optimizer", optimizer)
            before = scale_of(self)
            training.current, training.current_applied = inner, False
            try:
                recorder.attempt(inner, self)
                result = original(self, optimizer, *args, **kwargs)
            finally:
                training.current = None
            recorder.applied(inner, self, before, skipped=not training.current_applied)
            return result

        return stepping

    def unscale(original: Any) -> Any:
        def unscaling(self: Any, optimizer: Any) -> Any:
            if self.is_enabled():
                recorder.unscaling(self, getattr(optimizer, "optimizer", optimizer))
            return original(self, optimizer)

        return unscaling

    def update(original: Any) -> Any:
        def updating(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            if self.is_enabled():
                recorder.rescaled(self)
            return result

        return updating

    return {"scale": scale, "step": step, "unscale_": unscale, "update": update}
