"""Patch torch: step hooks, loss scalers, backward, clipping and, for a proof, module and function calls.

Each patch calls the original with the same arguments and returns its result unchanged.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Callable

from .autocast import is_float16_on_card
from .interruptions import patch_interruptions
from .loss_graph import Start, classify_start
from .loss_scale import patch_scalers
from .origins import LIBRARIES, patch_libraries, patch_parameters
from .patching import Training, is_compiling, is_enabled, replace
from .recorder import DetailRecorder, Recorder
from .resumed import note_loading
from .signed_objects import RENDEZVOUS, ZERO
from .tensors import dtype_name

PATCHED = frozenset(
    {
        "torch",
        "torch.amp",
        "torch.amp.autocast_mode",
        "torch.amp.grad_scaler",
        "torch.nn.modules.module",
        "torch.nn.utils",
        "torch.nn.utils.clip_grad",
        RENDEZVOUS,
        ZERO,
        "torch.optim.lr_scheduler",
        "torch.optim.optimizer",
        "torch.utils.checkpoint",
        *LIBRARIES,
    }
)
"""The modules that are patched, and patched again after a reload. Modules that torch cannot reload are excluded."""
CTC = ("log_probs", "targets", "input_lengths", "target_lengths")
VALUE_LOSSES = (
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
    "poisson_nll_loss",
    "soft_margin_loss",
    "multilabel_soft_margin_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "ctc_loss",
)
"""The losses of torch.nn.functional that have no ignore_index."""


def install(recorder: Recorder, training: Training) -> None:
    """Patch the imported torch so that it calls `recorder`. Functions that are already patched are skipped."""
    torch = sys.modules["torch"]
    _patch_optimizers(recorder, training)
    patch_scalers(torch, recorder, training)
    _patch_backward(torch, recorder, training)
    _patch_clipping(torch, recorder)
    if recorder.interruptions is not None:
        for owner, name, wrapper in patch_interruptions(torch, lambda: recorder.interruptions):
            replace(owner, name, wrapper)
    if recorder.details is not None:
        _patch_schedulers(recorder.details)
        _patch_autocast(torch, recorder.details, training)
        _patch_functions(torch, recorder.details)
        _patch_checkpointing(recorder.details)
        _patch_modules(torch, recorder, recorder.details, training)
        patch_parameters(torch, recorder.details.origins)
        patch_libraries(recorder.details.origins)


def _restart_in_fork(recorder: Recorder, training: Training) -> None:
    """Start a new record in a forked child when it first uses a model."""
    if os.getpid() != training.pid:
        training.pid = os.getpid()
        recorder.restart()


def _found_inf(optimizer: Any) -> bool:
    # GradScaler calls a fused optimizer even after an overflow. The kernel then skips the step if this attribute is
    # above 0.
    found_inf = getattr(optimizer, "found_inf", None)
    return found_inf is not None and bool(float(found_inf))


def _patch_optimizers(recorder: Recorder, training: Training) -> None:
    # torch.optim deletes its attribute `optimizer`, so the module is looked up in sys.modules.
    optimizers = sys.modules["torch.optim.optimizer"]

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if training.stepping is None:
            recorder.attempt(optimizer, None)
        if not _found_inf(optimizer):
            # args[0] is the optimizer itself.
            closure = any(one is not None for one in (*args[1:], *kwargs.values()))
            recorder.before_step(optimizer, closure=closure)

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if training.stepping is optimizer:
            training.scaler_applied = not _found_inf(optimizer)
        elif training.stepping is None:
            recorder.after_step(optimizer, None, None, skipped=False)

    training.optimizer_hooks.renew(
        optimizers.register_optimizer_step_pre_hook(before),
        optimizers.register_optimizer_step_post_hook(after),
    )

    def init(original: Any) -> Any:
        def build(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            if recorder.details is not None:
                recorder.details.built(self)

        return build

    replace(optimizers.Optimizer, "load_state_dict", note_loading)
    if recorder.details is not None:
        replace(optimizers.Optimizer, "__init__", init)


def _patch_autocast(torch: Any, details: DetailRecorder, training: Training) -> None:
    def init(original: Any) -> Any:
        def build(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            requested = is_enabled(original, self, args, kwargs)
            # Autocast that a module disables for a part of the model is not recorded.
            if requested or training.module_depth == 0:
                replaced = is_float16_on_card(self, args, kwargs)
                details.autocast_made(requested, bool(getattr(self, "_enabled", True)), replaced)
            if requested:
                details.origins.enter("autocast", dtype_name(getattr(self, "fast_dtype", "")))

        return build

    def clear(original: Any) -> Any:
        def clearing() -> None:
            original()
            details.cache_cleared()

        return clearing

    replace(torch.autocast, "__init__", init)
    # The outermost autocast context also calls this function at its exit.
    replace(torch, "clear_autocast_cache", clear)


def _patch_backward(torch: Any, recorder: Recorder, training: Training) -> None:
    details = recorder.details

    def backward(original: Any) -> Any:
        def run_backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            _restart_in_fork(recorder, training)
            if training.backward_depth:
                return nested(tensors, *args, **kwargs)
            if isinstance(tensors, torch.Tensor) and tensors.numel() == 1:
                recorder.backward(training.unscaled_loss if tensors is training.scaled_loss else tensors)
                training.unscaled_loss = training.scaled_loss = None
            training.module_depth = 0
            start = Start.UNKNOWN
            if details is not None:
                details.before_backward()
                start = classify_start(tensors, args, kwargs)
            result = nested(tensors, *args, **kwargs)
            recorder.after_backward(start)
            return result

        def nested(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            training.backward_depth += 1
            try:
                return original(tensors, *args, **kwargs)
            finally:
                training.backward_depth -= 1

        return run_backward

    replace(torch.autograd, "backward", backward)


def _patch_clipping(torch: Any, recorder: Recorder) -> None:
    def clip(original: Any) -> Any:
        def clipping(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            # A generator can be read only once.
            given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            if recorder.details is not None:
                recorder.details.before_clipping(given)
            result = original(given, *args, **kwargs)
            limit = args[0] if args else kwargs.get("max_norm", kwargs.get("clip_value"))
            recorder.after_clipping(given, result, limit)
            return result

        return clipping

    home = sys.modules["torch.nn.utils.clip_grad"]
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        replace(home, name, clip)
        setattr(torch.nn.utils, name, getattr(home, name))


def _patch_schedulers(details: DetailRecorder) -> None:
    schedulers = sys.modules["torch.optim.lr_scheduler"]

    def step(original: Any) -> Any:
        def stepping(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            details.scheduled(self)
            return result

        return stepping

    replace(getattr(schedulers, "LRScheduler", None) or schedulers._LRScheduler, "step", step)


def _patch_functions(torch: Any, details: DetailRecorder) -> None:
    functional = torch.nn.functional

    def attend(original: Any) -> Any:
        def attending(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
            if not is_compiling(torch):
                names = ("attn_mask", "dropout_p", "is_causal")
                details.attention(query, key, value, {**dict(zip(names, args)), **kwargs})
            return original(query, key, value, *args, **kwargs)

        return attending

    def entropy(original: Any) -> Any:
        def measuring(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            if not is_compiling(torch):
                details.cross_entropy(input, target, int(kwargs.get("ignore_index", -100)))
            return original(input, target, *args, **kwargs)

        return measuring

    def value_loss(name: str) -> Callable[[Any], Any]:
        def watch_loss(original: Any) -> Any:
            def measuring(*args: Any, **kwargs: Any) -> Any:
                if not is_compiling(torch):
                    given = {**dict(zip(CTC if name == "ctc_loss" else ("input", "target"), args)), **kwargs}
                    target = given.get("target", given.get("targets"))
                    details.value_loss(name, target, given.get("target_lengths"))
                return original(*args, **kwargs)

            return measuring

        return watch_loss

    for name in VALUE_LOSSES:
        replace(functional, name, value_loss(name))
    replace(functional, "scaled_dot_product_attention", attend)
    replace(functional, "cross_entropy", entropy)


def _patch_checkpointing(details: DetailRecorder) -> None:
    checkpointing = __import__("torch.utils.checkpoint", fromlist=["checkpoint"])

    def checkpoint(original: Any) -> Any:
        def checkpoint_call(function: Any, *args: Any, **kwargs: Any) -> Any:
            # Without the argument, torch uses the reentrant variant.
            details.checkpointing(kwargs.get("use_reentrant") in (None, True), args)
            return original(function, *args, **kwargs)

        return checkpoint_call

    replace(checkpointing, "checkpoint", checkpoint)


def _patch_modules(torch: Any, recorder: Recorder, details: DetailRecorder, training: Training) -> None:
    """Patch the calls of root modules.

    A root module is a module that is called outside of other modules, and not by a recomputation in backward.
    """
    modules = sys.modules["torch.nn.modules.module"]

    def before(module: Any, args: Any) -> None:
        training.module_depth += 1
        if training.module_depth == 1:
            _restart_in_fork(recorder, training)
        if training.module_depth == 1 and training.backward_depth == 0 and torch.is_grad_enabled():
            details.forward(module)

    def after(module: Any, args: Any, output: Any) -> None:
        training.module_depth -= 1

    if not training.released:
        training.module_hooks.renew(
            modules.register_module_forward_pre_hook(before),
            modules.register_module_forward_hook(after, always_call=True),
        )

    def release() -> None:
        training.released = True
        training.module_hooks.renew()

    details.release = release
