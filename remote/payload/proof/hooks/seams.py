"""Where torch is opened to look inside: its step hooks, loss scaler, backward, attention, cross entropy, module calls.

Each seam calls the original with the same arguments and hands its result on untouched.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Dict, Optional

from .recorder import Recorder


class Training:
    """The seams' shared knowledge of where in a step the process is."""

    def __init__(self) -> None:
        self.backward_depth = 0
        self.module_depth = 0
        self.current: Optional[Any] = None
        self.current_applied = False
        self.scaled_from: Optional[Any] = None
        self.scaled_to: Optional[Any] = None


def install(recorder: Recorder) -> None:
    """Torch, already imported, tells `recorder` what happens from now on."""
    torch = sys.modules["torch"]
    training = Training()
    _watch_optimizers(torch, recorder, training)
    _watch_scaler(torch, recorder, training)
    _watch_backward(torch, recorder, training)
    _watch_clipping(torch, recorder)
    _watch_schedulers(torch, recorder)
    if recorder.wants_modules:
        _watch_functions(torch, recorder)
        _watch_checkpointing(torch, recorder)
        _watch_modules(torch, recorder, training)


def replace(owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
    """`owner.name` is `wrapper(original)`, where there is such a thing."""
    original = getattr(owner, name, None)
    if original is not None:
        setattr(owner, name, functools.wraps(original)(wrapper(original)))


def scaler_class(torch: Any) -> Any:
    """The class all loss scalers derive from: torch.amp's since 2.3, torch.cuda.amp's before."""
    return getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler


def scale_of(scaler: Any) -> Optional[float]:
    """The loss scale now; None for a scaler that is switched off or has not scaled anything."""
    if scaler is None or not scaler.is_enabled():
        return None
    return float(scaler.get_scale())


def _found_inf(optimizer: Any) -> bool:
    # Fused optimizers are called in every case and skip inside their kernel, by this attribute.
    found = getattr(optimizer, "found_inf", None)
    return found is not None and bool(float(found))


def _watch_optimizers(torch: Any, recorder: Recorder, training: Training) -> None:
    # torch.optim deletes the name of this module of its own from itself.
    optimizers = sys.modules["torch.optim.optimizer"]

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if training.current is None:
            recorder.attempt(optimizer, None)
        if not _found_inf(optimizer):
            recorder.applying(optimizer)

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if training.current is optimizer:
            training.current_applied = not _found_inf(optimizer)
        elif training.current is None:
            recorder.applied(optimizer, None, None, skipped=False)

    optimizers.register_optimizer_step_pre_hook(before)
    optimizers.register_optimizer_step_post_hook(after)

    def init(original: Any) -> Any:
        def build(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            recorder.built(self)

        return build

    replace(optimizers.Optimizer, "__init__", init)


def _watch_scaler(torch: Any, recorder: Recorder, training: Training) -> None:
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

        return build

    replace(scaler_class(torch), "__init__", init)


def _scaler_wrappers(torch: Any, recorder: Recorder, training: Training) -> Dict[str, Callable[[Any], Any]]:
    def scale(original: Any) -> Any:
        def scaling(self: Any, outputs: Any) -> Any:
            result = original(self, outputs)
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


def _watch_backward(torch: Any, recorder: Recorder, training: Training) -> None:
    def backward(original: Any) -> Any:
        def run_backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            root = tensors if isinstance(tensors, torch.Tensor) else None
            if training.backward_depth == 0 and root is not None and root.numel() == 1:
                loss = training.scaled_from if root is training.scaled_to else root
                recorder.backward(root, loss)
                training.scaled_from = training.scaled_to = None
            if training.backward_depth == 0:
                training.module_depth = 0
            training.backward_depth += 1
            try:
                return original(tensors, *args, **kwargs)
            finally:
                training.backward_depth -= 1

        return run_backward

    replace(torch.autograd, "backward", backward)


def _watch_clipping(torch: Any, recorder: Recorder) -> None:
    def clip(original: Any) -> Any:
        def clipping(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            norm = original(parameters, *args, **kwargs)
            recorder.clipped(norm)
            return norm

        return clipping

    replace(sys.modules["torch.nn.utils.clip_grad"], "clip_grad_norm_", clip)
    torch.nn.utils.clip_grad_norm_ = sys.modules["torch.nn.utils.clip_grad"].clip_grad_norm_


def _watch_schedulers(torch: Any, recorder: Recorder) -> None:
    schedulers = sys.modules["torch.optim.lr_scheduler"]

    def step(original: Any) -> Any:
        def stepping(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            recorder.scheduled(self)
            return result

        return stepping

    replace(getattr(schedulers, "LRScheduler", None) or schedulers._LRScheduler, "step", step)


def _watch_functions(torch: Any, recorder: Recorder) -> None:
    functional = torch.nn.functional

    def attend(original: Any) -> Any:
        def attending(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
            if not _compiling(torch):
                names = ("attn_mask", "dropout_p", "is_causal")
                recorder.attention(query, key, value, {**dict(zip(names, args)), **kwargs})
            return original(query, key, value, *args, **kwargs)

        return attending

    def entropy(original: Any) -> Any:
        def measuring(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            if not _compiling(torch):
                recorder.cross_entropy(input, target, int(kwargs.get("ignore_index", -100)))
            return original(input, target, *args, **kwargs)

        return measuring

    replace(functional, "scaled_dot_product_attention", attend)
    replace(functional, "cross_entropy", entropy)


def _compiling(torch: Any) -> bool:
    compiler = getattr(torch, "compiler", None)
    return bool(compiler is not None and compiler.is_compiling())


def _watch_checkpointing(torch: Any, recorder: Recorder) -> None:
    checkpointing = __import__("torch.utils.checkpoint", fromlist=["checkpoint"])

    def checkpoint(original: Any) -> Any:
        def checkpoint_call(function: Any, *args: Any, **kwargs: Any) -> Any:
            # torch's own default is reentrant until it demands the argument.
            recorder.checkpointed(kwargs.get("use_reentrant") in (None, True), args)
            return original(function, *args, **kwargs)

        return checkpoint_call

    replace(checkpointing, "checkpoint", checkpoint)


def _watch_modules(torch: Any, recorder: Recorder, training: Training) -> None:
    """Roots are told by depth: a module that is called while no other is, and not by a recomputation in backward."""
    modules = sys.modules["torch.nn.modules.module"]

    def before(module: Any, args: Any) -> None:
        training.module_depth += 1
        if training.module_depth == 1 and training.backward_depth == 0 and torch.is_grad_enabled():
            recorder.forward(module)

    def after(module: Any, args: Any, output: Any) -> None:
        training.module_depth -= 1

    handles = (
        modules.register_module_forward_pre_hook(before),
        modules.register_module_forward_hook(after, always_call=True),
    )

    def release() -> None:
        for handle in handles:
            handle.remove()

    recorder.release = release
