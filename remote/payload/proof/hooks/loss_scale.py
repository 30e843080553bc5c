"""Read the loss scale: patches of the methods of loss scalers (scale, unscale, step, update) record it for each step.

The recorded values are judged by `monitor.py` during a job, and by `proof/checks_mixed_precision.py` for a proof.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from .loss_graph import mark_scaled
from .patching import Training, is_enabled, replace
from .recorder import Recorder


def scaler_class(torch: Any) -> Any:
    """Return the base class of all loss scalers: that of torch.amp since torch 2.3, that of torch.cuda.amp before."""
    return getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler


def scale_of(scaler: Any) -> Optional[float]:
    """Return the loss scale, or None if there is no scaler or the scaler is disabled."""
    if scaler is None or not scaler.is_enabled():
        return None
    return float(scaler.get_scale())


def patch_scalers(torch: Any, recorder: Recorder, training: Training) -> None:
    """Patch each scaler class when its first object is created, because FSDP's scaler overrides half of the methods."""
    patched = set()
    wrappers = _scaler_wrappers(torch, recorder, training)

    def init(original: Any) -> Any:
        def build(self: Any, *args: Any, **kwargs: Any) -> None:
            for kind in type(self).__mro__:
                if kind not in patched and hasattr(kind, "get_scale"):
                    patched.add(kind)
                    for name in wrappers.keys() & vars(kind).keys():
                        replace(kind, name, wrappers[name])
            original(self, *args, **kwargs)
            if recorder.details is not None:
                recorder.details.scaler_made(is_enabled(original, self, args, kwargs), self.is_enabled())

        return build

    replace(scaler_class(torch), "__init__", init)


def _scaler_wrappers(torch: Any, recorder: Recorder, training: Training) -> Dict[str, Callable[[Any], Any]]:
    details = recorder.details

    def scale(original: Any) -> Any:
        def scaling(self: Any, outputs: Any) -> Any:
            result = original(self, outputs)
            if self.is_enabled():
                mark_scaled(result)
            if isinstance(outputs, torch.Tensor) and self.is_enabled():
                training.unscaled_loss, training.scaled_loss = outputs, result
                if details is not None:
                    details.scaling(self)
            return result

        return scaling

    def step(original: Any) -> Any:
        def stepping(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.is_enabled() or training.stepping is not None:
                return original(self, optimizer, *args, **kwargs)
            inner = getattr(optimizer, "optimizer", optimizer)
            before = scale_of(self)
            training.stepping, training.scaler_applied = inner, False
            try:
                recorder.attempt(inner, self)
                result = original(self, optimizer, *args, **kwargs)
            finally:
                training.stepping = None
            recorder.after_step(inner, self, before, skipped=not training.scaler_applied)
            return result

        return stepping

    def unscale(original: Any) -> Any:
        def unscaling(self: Any, optimizer: Any) -> Any:
            if self.is_enabled() and details is not None:
                details.before_unscaling(getattr(optimizer, "optimizer", optimizer), float(self.get_scale()))
            return original(self, optimizer)

        return unscaling

    def update(original: Any) -> Any:
        def updating(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            if self.is_enabled() and details is not None:
                details.scale_updated(self)
            return result

        return updating

    return {"scale": scale, "step": step, "unscale_": unscale, "update": update}
